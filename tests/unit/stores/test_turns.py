"""Threads of a process that wait for the same keys run as one batch, and each gets what came of its own requests."""

import os
import threading
from typing import Any

import pytest

from callosum.errors import Unconfirmed
from callosum.model import Change, Scope
from callosum.stores.cache import Turns

KEY, OTHER = ("default", "doc:1"), ("default", "doc:2")
KEYS = {"a": (KEY,), "b": (KEY, OTHER), "c": (KEY,), "d": (OTHER,), "e": (OTHER, KEY)}
FAULTS: list[Any] = [None, ValueError("no"), Unconfirmed("perhaps", list("wxyz"))]  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", FAULTS)
def test_batches_that_wait_for_a_key_run_together(fault: Exception | None) -> None:
    turns, goes_on = Turns(), threading.Event()
    batches: list[str] = []
    told: dict[str, Any] = {}

    def run(requests: Any) -> list[Any]:
        batches.append("".join(scope.session for scope, _ in requests))
        assert goes_on.wait(30)
        if fault is not None and len(batches) == 2:
            raise fault
        return [scope.session for scope, _ in requests]

    def work(name: str) -> None:
        try:
            told[name] = turns.run(KEYS[name], [(Scope("default", name), lambda _: Change())], run)
        except Exception as error:  # noqa: BLE001
            told[name] = getattr(error, "answers", error)

    threads = [threading.Thread(target=work, args=(name,)) for name in KEYS]
    for number, thread in enumerate(threads):
        thread.start()
        while not batches or len({one for line in list(turns._lines.values()) for one in line}) <= number:
            os.sched_yield()
    goes_on.set()
    for thread in threads:
        thread.join(30)
    assert (batches[0], batches[1][0], sorted(batches[1])) == ("a", "b", list("bcde"))
    answers = "wxyz" if isinstance(fault, Unconfirmed) else batches[1]
    for name, answer in zip(batches[1], answers, strict=True):
        assert told[name] == (fault if isinstance(fault, ValueError) else [answer])
    assert not turns._lines
