"""The client starts fast, with little more than json and socket, and sends what is pending in the background."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import callosum
from callosum.client import background
from callosum.client.background import BackgroundSender

PACKAGE = Path(callosum.__file__).parent
# An empty package in place of callosum's own, so that only the client's imports count.
ALONE = f"""
import sys, types
package = types.ModuleType("callosum")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["callosum"] = package
"""


def modules(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys\nsys.path[:0] = {sys.path!r}\n{ALONE}{code}\nprint(*sys.modules, sep='\\n')"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["transport", "http1", "sse", "errors"])
def test_transport_imports_little_of_the_standard_library(module: str) -> None:
    found = modules(f"import json, callosum.client.{module}")
    assert not found & {
        "msgspec",
        "typing",
        "ssl",
        "http.client",
        "email",
        "urllib.parse",
        "logging",
        "threading",
        "asyncio",
    }


@pytest.mark.parametrize("module", ["fallback", "spool"])
def test_fallback_imports_only_the_standard_library(module: str) -> None:
    found = modules(f"import callosum.client.{module}")
    assert not found & {"msgspec", "http.client", "asyncio", "callosum.redact", "callosum.model"}


def test_client_imports_neither_rules_nor_stores() -> None:
    found = modules("from callosum.client import CallosumClient\nCallosumClient('unix:/tmp/none').close()")
    assert "msgspec" in found
    heavy = {
        "urllib.parse", "re2", "sqlite3", "typer", "rich", "asyncio", "ssl", "http.client", "concurrent.futures",
        "psutil", "platformdirs",
    }  # fmt: skip
    assert not found & heavy
    assert {name for name in found if name.startswith("callosum.")} == {
        "callosum.client", "callosum.client.classify", "callosum.client.client", "callosum.client.background",
        "callosum.client.errors", "callosum.client.fallback",
        "callosum.client.http1", "callosum.client.spool",
        "callosum.client.messages", "callosum.client.sse", "callosum.client.transport",
        "callosum.process", "callosum.bootclock", "callosum.budget", "callosum.characters", "callosum.deadline",
        "callosum.errors", "callosum.model", "callosum.operations", "callosum.policy", "callosum.policy.table",
        "callosum.spool", "callosum.unclean", "callosum.wire", "callosum.worktree",
    }  # fmt: skip


def test_package_exports_its_names() -> None:
    from callosum import client  # noqa: PLC0415 - the module under test

    for name in client.__all__:
        assert getattr(client, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        client.Nobody  # noqa: B018


def test_sender_that_cannot_start_a_thread_tries_again_at_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "EVERY", 0.001)
    carried = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = BackgroundSender(lambda: not carried.is_set(), carried.set)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        one.wake()
    assert not carried.is_set()
    one.wake()
    assert carried.wait(10)
    one.stop()
