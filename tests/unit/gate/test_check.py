"""Checks of the gate's input."""

import msgspec

from callosum.gate.check import without_secrets
from callosum.model import Call, Worktree
from callosum.redact import SecretDigests

CALL = Call(
    "mira", "read", {}, session="chat", run="run", call_id="one/two", cwd="/srv/site", worktree=Worktree("/srv", "/git")
)


def test_call_whose_names_hold_no_secret_is_not_copied_however_often_they_were_seen() -> None:
    digests = SecretDigests(b"")
    for _ in range(2):  # each time with strings of its own, as from the wire
        call = msgspec.json.decode(msgspec.json.encode(CALL), type=Call)
        assert without_secrets(call, digests) is call
    call = msgspec.structs.replace(CALL, run="sk-ant-api03-" + "x7Kp2Qm9Zr4Lw8Vn" * 3)
    assert "x7Kp" not in str(without_secrets(call, digests))
