"""Two versions on one store: what the newer one has appended to a record stays when the older one rewrites it."""

import msgspec
import pytest
from msgspec import Raw

from callosum.model import DAY, HOUR, SECOND, Key, Mode, State
from callosum.stores import names
from callosum.stores.kernel import Kernel
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript

_APPENDED = msgspec.msgpack.encode(["what", 2, b"came"])


def _kept(store: Kernel, at: list[bytes]) -> dict[bytes, bytes]:
    with store.engine.snapshot() as reader:
        return {bytes(name): bytes(value) for name, value in reader.get(at)}


def _lengthen(store: Kernel, at: list[bytes]) -> None:
    """Append a field to records and add a record of another kind, as a newer version does."""
    transaction = store.engine.begin((), ())
    found = transaction.get(at)
    changed = {bytes(name): Raw(bytes([value[0] + 1]) + value[1:] + _APPENDED) for name, value in found}
    transaction.known.clear()  # the newer version is another process
    transaction.commit({**changed, names.named(b"w", "", b"new"): Raw(b"\xc3")}, ())


@pytest.mark.parametrize("script", ["memory", "sqlite", "lmdb", "redis", "postgres"], indirect=True)
def test_fields_that_a_newer_version_appended_survive_a_rewrite(script: StoreScript, clock: ManualClock) -> None:
    """Each kind of record is rewritten twice: from the engine, and from what the process knows already."""
    store = script.store
    assert isinstance(store, Kernel)
    id = script.act("mira", "doc:plan", tier=3, state=State.OPEN)
    space = script.namespace
    at = [
        names.action(space, id),
        names.key(space, "doc:plan"),
        names.mark(space, "mira", "doc:plan"),
        names.session(space, "mira"),
    ]
    _lengthen(store, at)
    before = _kept(store, at)
    assert all(value.endswith(_APPENDED) for value in before.values())
    for _ in range(2):
        clock.advance(2 * HOUR // SECOND)
        script.act("mira", Key("doc:plan", Mode.WRITE), tier=3, state=State.OPEN)
        store.maintain(clock.now - DAY)
        after = _kept(store, at)
        assert all(value.endswith(_APPENDED) for value in after.values())
        assert not [name for name in at[1:] if after[name] == before[name]]
        before = after
    script.end("mira", id)
    ended = _kept(store, at)[at[0]]
    assert ended.endswith(_APPENDED)
    assert ended != before[at[0]]
    assert _kept(store, [names.named(b"w", "", b"new")])
