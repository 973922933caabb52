"""Sessions see the summary and the purpose of a conflicting action, as data."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callosum.characters import is_shown, tokens
from callosum.errors import ConfigError
from callosum.gate.records import approvals_of
from callosum.journal import Rotation
from callosum.model import MAX_PURPOSE, MAX_SUMMARY, Call, Conflict, Decision, Kind, State, Verdict
from callosum.policy.sentence import DETAILS, PARAGRAPH, Beside, details_of, sentence
from callosum.policy.summary import HUNK, JournalledCall, hunk_of, journalled_call, shown, summary_of
from callosum.redact import summarise
from callosum.wire import ApprovalsQuery
from tests.support.speaking import SPEAKING
from tests.support.world import World, gate_time

LETTER = {"to": "alice@example.com", "subject": "Invoice 42", "body": "We have paid it,\nas agreed."}
OLD = "def checkout(cart):\n    total = 0\n    return total\n"
NEW = "def checkout(cart):\n    total = cart.sum()\n    log(total)\n    check(total)\n    return total\n"
EDIT = {"file_path": "/r/a.py", "old_string": OLD, "new_string": NEW}
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@ def tax():\n-    x\n+    y\n+    z\n*** End Patch"


def line_of(params: dict[str, Any], **more: Any) -> str:
    return summary_of(journalled_call(json.dumps({"params": summarise(params), **more}).encode()))


@pytest.mark.parametrize(
    ("params", "line"),
    [
        pytest.param(LETTER, '"Invoice 42": "We have paid it, as agreed."', id="a mail"),
        pytest.param({"action": "send", "target": "#ops", "message": "On it"}, '"On it"', id="a message"),
        pytest.param({"command": "git push\n  origin"}, '"git push origin"', id="a command"),
        pytest.param({"amount": 120, "currency": "EUR", "recipient": "GB29", "subject": "Rent"}, '"120 EUR" to "GB29", "Rent"', id="a payment"),
        pytest.param({"amount": 120}, 'amount "120"', id="an amount of nothing that is known"),
        pytest.param(EDIT, "+3 -1 in checkout()", id="an edit"),
        pytest.param({"edits": [{"oldText": "a", "newText": "b\nc"}, {"oldText": "d", "newText": ""}]}, "+3 -2", id="edits"),
        pytest.param({"input": PATCH}, "+2 -1 in tax()", id="a patch"),
        pytest.param({"oldStr": "x\n" * 200, "newStr": "y"}, "+1 -100 or more lines", id="an edit of which the journal keeps a part"),
        pytest.param({"path": "/r/a", "content": "one\ntwo"}, '2 lines, "one two"', id="a file"),
        pytest.param({"path": "/r/a", "content": "x" * 300}, f'300 characters, "{"x" * 59}…"', id="a long file"),
        pytest.param({"event": {"summary": "Review", "start": {"dateTime": "2026-11-24T10:00"}}}, '"Review" at "2026-11-24T10:00"', id="an event"),
        pytest.param(
            {"order_id": "#W1", "items": ["1", "2"], "how": "pay", "zip": 1},
            'order_id "#W1", items "1, 2", how "pay" and 1 more',
            id="anything else",
        ),
        pytest.param({"say `this`": "x"}, '"say `this`" "x"', id="a name that is no name"),
        pytest.param({"password": "hunter22", "user": "bob"}, 'user "bob"', id="a secret"),
        pytest.param({}, "", id="nothing"),
    ],
)  # fmt: skip
def test_a_summary_says_what_a_call_does(params: dict[str, Any], line: str) -> None:
    assert line_of(params) == line


def test_a_summary_that_the_caller_gives_comes_first() -> None:
    assert line_of(LETTER, summary="sent the \u202einvoice") == '"sent the \\u202einvoice"'


def test_a_summary_leaves_out_what_the_key_says() -> None:
    kept = JournalledCall(params={"order_id": "W1", "how": "fast"})
    assert summary_of(kept, "order:w1") == 'how "fast"'
    assert summary_of(JournalledCall(params={"order_id": "W1"}), "order:w1") == ""


def test_unreadable_body_gives_no_summary() -> None:
    for body in (b"", b"[]", b"{", b'{"params": [1]}', b'{"summary": 3}'):
        assert summary_of(journalled_call(body)) == ""


def test_a_hunk_shows_lines_around_the_change() -> None:
    assert hunk_of(JournalledCall(params=EDIT)) == (
        "| @@ checkout()",
        "|  def checkout(cart):",
        "| -    total = 0",
        "| +    total = cart.sum()",
        "| +    log(total)",
        "| +    check(total)",
        "|      return total",
    )
    assert hunk_of(JournalledCall(params=LETTER)) == ()


def test_lines_that_stay_the_same_between_changes_are_no_change() -> None:
    edit = {"old_string": "a\nb\nc\n", "new_string": "A\nb\nc\nd\n"}
    assert hunk_of(JournalledCall(params=edit)) == ("| @@", "| -a", "| +A", "|  b", "|  c", "| +d")
    far = "\n".join("123456")
    apart = {"old_string": f"a\n{far}\nz", "new_string": f"A\n{far}\nZ"}
    assert hunk_of(JournalledCall(params=apart)) == (
        "| @@", "| -a", "| +A", "|  1", "|  2", "| @@", "|  5", "|  6", "| -z", "| +Z",
    )  # fmt: skip
    assert line_of(edit) == "+2 -1"


def test_hunk_has_a_maximum_number_of_lines() -> None:
    lines = hunk_of(JournalledCall(params={"old_string": "x\n" * 50, "new_string": "y\n" * 50}))
    assert len(lines) == HUNK
    assert lines[-1] == "| … 82 more lines"


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[World]:
    with _mailing(tmp_path) as world:
        yield world


class _mailing:
    """Make a world without its own rules and with these settings."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        (folder / "rules.json").write_text('{"rules": []}')
        self.world = World(folder, **settings)
        self.time = gate_time(self.world.clock)

    def __enter__(self) -> World:
        self.time.__enter__()
        return self.world

    def __exit__(self, *_: object) -> None:
        self.world.gate.close()
        self.time.__exit__(None, None, None)


def warning_for(
    world: World, *, tool: str = "send_email", params: dict[str, Any] = LETTER, mine: dict[str, Any] | None = None,
    me: str = "mira", other: str = "doug/chat", **call: Any,
) -> Decision:  # fmt: skip
    """Return the warning that ``me`` gets right after the other session's call."""
    instance, _, session = other.partition("/")
    opened = world.gate.intercept(Call(instance=instance, session=session or None, tool=tool, params=params, **call))
    world.after(1)
    world.gate.complete(instance, id=opened.id, session=session or None)
    world.after(3)
    decision: Decision = world.gate.intercept(Call(instance=me, tool=tool, params=mine or {**params, "body": "Hello!"}))
    return decision


def test_sentence_says_what_the_other_session_did(mail: World) -> None:
    decision = warning_for(mail)
    assert decision.verdict is Verdict.WARN
    assert decision.conflicts[0].summary == '"Invoice 42": "We have paid it, as agreed."'
    assert 'doug/chat did: "Invoice 42": "We have paid it, as agreed."' in (decision.warning or "")


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (4, 'doug began 4 s ago (send_email): "Invoice 42": "We have paid it, as agreed."'),
        (4000, 'Check the sent mail to see whether it happened before you try again. doug tried: "Invoice 42"'),
    ],
)
def test_sentence_says_since_when_an_action_runs_and_where_to_check_it(mail: World, later: int, words: str) -> None:
    mail.gate.intercept(Call(instance="doug", tool="send_email", params=LETTER))
    mail.after(later)
    again = mail.gate.intercept(Call(instance="mira", tool="send_email", params={**LETTER, "body": "Hello!"}))
    assert words in (again.warning or "")


def test_a_stale_edit_is_shown_the_other_change(mail: World) -> None:
    mail.gate.intercept(Call(instance="mira", tool="Read", params={"file_path": "/r/a.py"}))
    decision = warning_for(mail, tool="Edit", params=EDIT, mine={**EDIT, "new_string": "pass"})
    paragraph, *lines = (decision.warning or "").split("\n")
    assert paragraph.endswith("doug/chat did: +3 -1 in checkout().")
    assert lines == ["What doug/chat changed:", *hunk_of(JournalledCall(params=EDIT))]


def do(world: World, tool: str, params: dict[str, Any], who: str = "doug", **call: Any) -> None:
    opened = world.gate.intercept(Call(instance=who, session="chat", tool=tool, params=params, **call))
    world.after(1)
    world.gate.complete(who, id=opened.id, session="chat")
    world.after(1)


def related(decision: Decision) -> str:
    """Return the other actions of the conflicting session that the decision shows."""
    found = re.search(r" Related, by the same session: ([^\n]*)", decision.warning or "")
    return found[1] if found else ""


def test_related_actions_of_the_session_are_shown(mail: World) -> None:
    mail.gate.intercept(Call(instance="mira", tool="Read", params={"file_path": "/r/a.py"}))
    do(mail, "Edit", {"file_path": "/r/test_a.py", "old_string": "a", "new_string": "b\nc"}, purpose="sum it up")
    do(mail, "Edit", {"file_path": "/r/a.py", "old_string": "import x", "new_string": "import y"}, purpose="sum it up")
    do(mail, "post_comment", {"issue_id": "12", "body": "Done soon"}, purpose="sum it up")
    do(mail, "Edit", {"file_path": "/elsewhere/b.py", "old_string": "a", "new_string": "b"}, purpose="tidy up")
    do(mail, "Read", {"file_path": "/r/c.py"}, purpose="sum it up")
    do(mail, "Edit", {"file_path": "/r/d.py", "old_string": "a", "new_string": "b"}, "anna")
    decision = warning_for(mail, tool="Edit", params=EDIT, mine={**EDIT, "new_string": "pass"}, purpose="sum it up")
    assert related(decision) == (
        'Edit, 14 s ago: +1 -1; Edit on "file:/r/test_a.py", 16 s ago: +2 -1; '
        'post_comment on "issue:12|comment", 12 s ago: "Done soon".'
    )


def test_related_actions_below_a_tree_name_their_files(mail: World) -> None:
    said = ""  # 32 F12: the call's own key covers all the files
    for name in "abc":
        do(mail, "Edit", {"file_path": f"/r/{name}.py", "old_string": "a", "new_string": "b"})
        said = related(mail.gate.intercept(Call("mira", "Bash", {"command": "git stash"}, cwd="/r")))
    assert said == 'Edit on "file:/r/b.py", 4 s ago: +1 -1; Edit on "file:/r/a.py", 6 s ago: +1 -1.'


def test_unrelated_actions_are_not_shown(mail: World) -> None:
    do(mail, "Edit", {"file_path": "/r/a.py", "old_string": "a", "new_string": "b"})
    assert related(warning_for(mail)) == ""


def test_actions_from_long_before_are_not_shown(mail: World) -> None:
    do(mail, "send_email", {**LETTER, "subject": "Hello"})
    mail.after(601)
    assert related(warning_for(mail)) == ""
    do(mail, "send_email", {**LETTER, "subject": "Bye"})
    assert '"Bye"' in related(warning_for(mail, params={**LETTER, "subject": "Again"}))


def test_conflicting_action_is_not_shown_twice(mail: World) -> None:
    do(mail, "send_email", LETTER)
    decision = warning_for(mail, params={**LETTER, "body": "Now then."})
    ids = {conflict.id for conflict in decision.conflicts}
    assert len(ids) + related(decision).count(" ago: ") == 2


WIDE = "\U0001f98a"


@given(st.data())
def test_a_sentence_keeps_its_budget(data: st.DataObject) -> None:
    """This holds for any names of sessions and keys, any summaries and purposes, and any number of them."""
    text = st.text(st.sampled_from('ab "\u00e9' + WIDE), max_size=400) | st.just(WIDE * 400) | st.just("w " * 400)
    conflict = st.builds(
        Conflict,
        kind=st.sampled_from(Kind), instance=text, tool=text, tier=st.just(4), key=text, id=st.integers(1, 2**50),
        state=st.sampled_from(State), age=st.floats(0, 1e6), running=st.booleans(), own=st.booleans(),
        decided=st.sampled_from(["", "accepted"]), decides=st.sampled_from(["", "declines"]), what=text,
        summary=text.map(lambda said: shown(said, MAX_SUMMARY - 2)), purpose=text.map(lambda said: said[:MAX_PURPOSE]),
    )  # fmt: skip
    conflicts = data.draw(st.lists(conflict, min_size=1, max_size=10))
    verdict = data.draw(st.sampled_from(Verdict))
    paragraph = sentence(verdict, 4, conflicts, 10**6, wait=1, attempt=data.draw(st.integers(0, 4)))
    assert tokens(paragraph or "") <= PARAGRAPH
    hunk = hunk_of(
        JournalledCall(params={"old_string": data.draw(text), "new_string": "\n".join(data.draw(st.lists(text)))})
    )
    beside = data.draw(
        st.lists(st.builds(Beside, text, text, st.floats(0, 1e6), conflict.map(lambda one: one.summary)))
    )
    details = details_of(conflicts, data.draw(st.none() | st.just((WIDE * 90, hunk))), beside)
    assert tokens(details) <= DETAILS
    assert details.count("Related, by the same session") <= 1
    assert all(line.startswith("| ") for line in details.split("\n")[2:])


def test_a_change_without_room_for_its_heading_is_left_out() -> None:
    """The heading names the other session, whose name alone may exceed the remaining room."""
    met = Conflict(Kind.RECENT, WIDE * 400, WIDE * 400, 4, WIDE * 400, 1, State.QUEUED, 0.0)
    met = replace(met, summary=shown(WIDE * 400, MAX_SUMMARY - 2), purpose=WIDE * MAX_PURPOSE)
    for lines in ((), ("| -a",)):
        assert tokens(details_of([met], (WIDE * 90, lines))) <= DETAILS


def test_sentence_leaves_out_the_least_important_parts() -> None:
    """Other actions of the session go first, then the end of its change. The conflicting action itself always stays."""
    conflict = Conflict(Kind.STALE, "doug", "Edit", 1, "k", 1, State.DONE, 3, summary='"w"', purpose="why")
    beside = [Beside("Edit", "", 5, '"beside"')]
    few = details_of([conflict], ("doug", ["| a"]), beside)
    assert few.startswith(' doug did: "w" (asked: "why"). Related, by the same session: Edit, 5 s ago: "beside".')
    assert few.endswith("\nWhat doug changed:\n| a")
    full = details_of([conflict], ("doug", [f"| {'x' * 158}"] * HUNK), beside)
    assert full.startswith(' doug did: "w" (asked: "why").\nWhat doug changed:\n| x')
    assert full.endswith("\n| …")


def test_callers_summary_and_purpose_are_shown(mail: World) -> None:
    decision = warning_for(mail, summary="paid the invoice")
    assert 'doug/chat did: "paid the invoice".' in (decision.warning or "")


def test_purpose_is_shown_to_sessions_of_the_same_instance(mail: World) -> None:
    purpose = "answer Alice about the invoice"
    decision = warning_for(mail, me="doug", purpose=purpose)
    assert decision.conflicts[0].purpose == purpose
    assert '(asked: "answer Alice about the invoice").' in (decision.warning or "")


def test_purpose_is_not_shown_to_other_instances(mail: World) -> None:
    decision = warning_for(mail, purpose="answer Alice")
    assert decision.conflicts[0].purpose == ""
    assert "asked" not in (decision.warning or "")


def test_setting_shows_purposes_to_all(tmp_path: Path) -> None:
    with _mailing(tmp_path, journal_share_purposes=True) as world:
        assert warning_for(world, purpose="answer Alice").conflicts[0].purpose == "answer Alice"


@pytest.mark.parametrize(
    "settings", [{"journal_purposes": "off"}, {"store": "postgresql://db/agents"}], ids=["off", "a store of several machines"]
)  # fmt: skip
def test_no_purpose_is_kept(tmp_path: Path, settings: dict[str, Any]) -> None:
    with _mailing(tmp_path, **settings) as world:
        assert warning_for(world, me="doug", purpose="answer Alice").conflicts[0].purpose == ""
        assert "answer Alice" not in repr(world.gate.store.entries())


def test_without_params_in_the_journal_there_is_no_summary(tmp_path: Path) -> None:
    with _mailing(tmp_path, journal_params="none") as world:
        decision = warning_for(world, summary="paid the invoice")
        assert decision.conflicts[0].summary == ""
        assert "paid" not in repr(world.gate.store.entries())


def test_callers_summary_and_purpose_hold_no_secrets(mail: World) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    decision = warning_for(mail, me="doug", summary=f"used {secret}", purpose=f"use {secret}")
    assert decision.conflicts[0].summary
    assert secret not in repr(mail.gate.store.entries())
    assert secret not in repr(decision)


@pytest.mark.parametrize("field", ["summary", "purpose"])
def test_callers_summary_and_purpose_must_be_text(mail: World, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        mail.gate.intercept(replace(Call("mira", "send_email", LETTER), **{field: 3}))
    assert error.value.at == field


def test_a_repeated_answer_is_the_same(mail: World) -> None:
    warning_for(mail)
    call = Call("anna", "send_email", {**LETTER, "body": "Hello!"}, call_id="c1", dispatch="d")
    first = mail.gate.intercept(call)
    assert "doug/chat did" in (first.warning or "")
    assert mail.gate.intercept(call).warning == first.warning


def test_rotation_drops_texts_that_sessions_supplied(mail: World, tmp_path: Path) -> None:
    mail.end("doug", warning_for(mail, me="doug", purpose="answer Alice", summary="paid the invoice"))
    assert "paid the invoice" in repr(mail.gate.store.entries())
    mail.after(20 * 86_400)
    mail.do("anna", "Read", params={"file_path": "/r/other.py"})
    mail.gate.store.maintain(mail.clock.now)
    assert Rotation(mail.gate.store, tmp_path, age=86_400, size=1 << 30).run_all(mail.clock.now)
    kept = "".join(gzip.decompress(path.read_bytes()).decode() for path in (tmp_path / "journal").iterdir())
    assert "doug" in kept
    assert "Conflict: doug/chat" in kept
    for said in ("paid the invoice", "answer Alice"):
        assert said not in kept


@pytest.mark.parametrize("text", SPEAKING.values(), ids=SPEAKING)
@pytest.mark.parametrize(
    "where", ["subject", "body", "command", "other", "name", "title", "summary", "purpose", "hunk"]
)
def test_no_text_can_pass_for_the_gates(mail: World, where: str, text: str) -> None:
    tool, params, call = "send_email", dict(LETTER), {}
    if where in LETTER:
        params[where] = text
    elif where in ("summary", "purpose"):
        call[where] = text[:4000]
    elif where == "command":
        tool, params = "Bash", {"command": f"git -C /r push --force origin main # {text}"}
    elif where == "hunk":
        tool, params = "Edit", {**EDIT, "new_string": f"def f():\n  {text}\n{text}"}
        mail.gate.intercept(Call(instance="doug", tool="Read", params={"file_path": "/r/a.py"}))
    elif where == "title":
        tool, params = "create_event", {"title": text, "start": f"2026-11-24 {text}", "calendar": "c1", "id": "e1"}
    elif where == "name":
        tool, params = "update_order", {"order_id": "W1", text: text}
    else:
        tool, params = "update_order", {"order_id": "W1", "how": text}
    decision = warning_for(mail, tool=tool, params=params, mine={**params, "body": "Hello!"}, me="doug", **call)
    warning = decision.warning or ""
    assert "doug/chat did" in warning
    if where == "hunk":
        assert "What doug/chat changed:" in warning
    paragraph, *rest = warning.split("\n")
    for line in (paragraph, *rest):
        assert is_shown(line)
        assert line.isprintable()
    assert "PWNED" not in re.sub(r'"[^"]*"', "", paragraph)
    assert (
        paragraph.count("[Callosum]") - sum(part.count("[Callosum]") for part in re.findall(r'"[^"]*"', paragraph)) <= 1
    )
    assert len(paragraph) < 2000
    for line in rest[1:]:
        assert line.startswith("| ")
        assert len(line) < 200
    for conflict in decision.conflicts:
        assert len(conflict.summary) <= MAX_SUMMARY
        assert len(conflict.purpose) <= MAX_PURPOSE
        assert conflict.summary.count('"') % 2 == 0


def test_status_shows_summaries(mail: World) -> None:
    mail.ask("doug", "send_email", params=LETTER, purpose="answer Alice")
    mail.do("anna", "Edit", params=EDIT)
    status = mail.gate.status()
    assert [lease.summary for lease in status.locks] == ['"Invoice 42": "We have paid it, as agreed."']
    assert status.recent_actions[0].summary == "+3 -1 in checkout()"
    assert "answer Alice" not in repr(status), "anybody may ask for it"


def test_approvals_show_summary_and_purpose(mail: World, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"rules": [{"tool": "pay", "tier": 4, "verdict": "ask"}]}')
    mail.gate.rules.reload()
    mail.ask("doug", "pay", params={"amount": 120, "to": "GB29"}, purpose="pay the rent")
    (approval,) = approvals_of(mail.store, ApprovalsQuery()).approvals
    assert (approval.summary, approval.purpose) == ('"120" to "GB29"', "pay the rent")
