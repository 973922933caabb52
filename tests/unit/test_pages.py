"""Pages from entries: their contents, that hostile text has no effect, and that they stay small."""

import re
import stat
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from callosum.cli import show
from callosum.cli.journal import reason_of
from callosum.corpus.entry_events import events_of
from callosum.corpus.events import SafetyBlocked
from callosum.errors import StoreError
from callosum.model import MINUTE, SECOND, Conflict, Entry, Event, Key, Kind, Mode, Outcome, State, Verdict
from callosum.pages.action_lines import without_spellings
from callosum.pages.dates import clock, day_of, monday_of, start_of, week_of
from callosum.pages.day_page import FIRST, LAST, OTHERS, SESSIONS, DayPage
from callosum.pages.markdown import code
from callosum.pages.page_folder import PageFolder
from callosum.pages.topic_page import ACTS, TopicFinder, TopicPage, slug_of
from callosum.pages.totals import UNKNOWNS, JournalTotals, MostFrequent
from callosum.pages.week_page import WeekPage
from tests.support.speaking import SPEAKING

DAY = date(2027, 3, 16)
NINE = start_of(DAY) + 9 * 3600 * SECOND


def call(
    seq: int, session: str = "mira", tool: str = "message", tier: int = 2, key: str = "channel:#g", **more: object
) -> Entry:
    verdict = more.pop("verdict", Verdict.ALLOW)
    mode = more.pop("mode", Mode.WRITE if tier else Mode.READ)
    given: dict[str, object] = {"action": seq, "namespace": "default", "body": {}, **more}
    keys = (Key(key, mode),) if key else ()  # type: ignore[arg-type]
    return Entry(Event.INTERCEPT, session, seq=seq, tool=tool, tier=tier, verdict=verdict, keys=keys, **given)  # type: ignore[arg-type]


def report(
    seq: int, of: Entry, outcome: Outcome = Outcome.DONE, event: Event = Event.COMPLETE, **body: object
) -> Entry:
    return Entry(
        event, of.session, of.namespace, seq, of.action, of.tool, of.tier, keys=of.keys, outcome=outcome, body=body
    )


def page(*entries: Entry, so_far: bool = False) -> str:
    day = DayPage(DAY)
    for entry in entries:
        day.add(entry)
    return day.page(so_far=so_far)


def recent(instance: str, tool: str, key: str) -> dict[str, object]:
    """Return a conflict as an entry's body has it."""
    return {
        "kind": "recent", "instance": instance, "tool": tool, "tier": 2, "key": key, "id": 1, "state": "done", "age": 3,
    }  # fmt: skip


def listed(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"- \d\d:\d\d ", line)]


HOSTILE = [
    *SPEAKING.values(),
    "`", "``", "a`b", "```\n# head\n```", "`](javascript:x) [a](b)", "<script>alert(1)</script>", "<img src=x onerror=y>",
    "\n\n# not a head\n\n- nor an item", "\r\n> quote", "\x1b[31mred\x07", "\u202eright to left", "\u200bzero\ufeff", "\x00",
    "| a | b |", "<!-- ", "-->", "&lt;", "\\`", "``` x ````` y", " ` ", "", "   ", "[ref]: http://x", "\ud800", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_is_one_line_that_its_text_cannot_end(text: str) -> None:
    span = code(text)
    marks = re.match("`+", span)
    assert marks is not None
    inside = span[len(marks[0]) : -len(marks[0])]
    assert span.endswith(marks[0])
    assert marks[0] not in re.findall("`+", inside)  # CommonMark: a span ends at the first run of its own length
    assert "`" not in (inside[0], inside[-1])
    assert inside.isprintable()
    assert len(inside) <= 82
    span.encode()


def test_a_secret_in_a_name_is_not_shown() -> None:
    assert "ghp_" not in code("token ghp_abcdefghijklmnopqrstuvwxyz0123456789")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_cannot_start_a_line_or_a_heading(text: str) -> None:
    bad = call(
        NINE, text or "x", text or "x", key=text or "x", verdict=Verdict.CONFIRM, namespace=text or "x", rule=text,
        body={"conflicts": [recent(text, text, text)]},
    )  # fmt: skip
    failing = call(NINE + 1, text or "x", tier=3)
    plain = page(call(NINE, "x", "x", verdict=Verdict.CONFIRM, rule="x"), call(NINE + 1, "x", tier=3))
    made = page(bad, failing, report(NINE + 2, failing, Outcome.FAILED, result={"error": text}, note=text))
    assert made.count("\n## ") == plain.count("\n## ") + 1  # one session more: bad is of another namespace
    assert made.count("\n# ") == 0
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", made)
    assert not set("<[") & set(outside)
    assert all(char == "\n" or char.isprintable() for char in made)


def test_day_lists_each_sessions_actions_in_order() -> None:
    sent = call(NINE, "mira/chat")
    mailed = call(NINE + 60 * SECOND, "doug", "email", 3, "email:a@example.com")
    paused = call(
        NINE + 120 * SECOND, "mira/chat", "email", 3, "email:a@example.com", verdict=Verdict.CONFIRM,
        body={"conflicts": [Conflict(Kind.RECENT, "doug", "email", 3, "email:a@example.com", mailed.seq, State.DONE, 40.0)], "count": 3},
    )  # fmt: skip
    text = page(sent, mailed, paused, report(NINE + 300 * SECOND, mailed))
    assert text.splitlines()[0] == "# 2027-03-16, Tuesday"
    assert text.splitlines()[2] == "2 sessions, 3 calls, 1 held back. Last entry at 09:05."
    assert "- Calls: 1 of tier 2, 2 of tier 3" in text
    assert "- Held back: 1 confirm" in text
    assert listed(text) == [
        "- 09:00 `message` → `channel:#g` done",
        "- 09:02 `email` → `email:a@example.com` held back (confirm): `doug` acted on it 40 s before, and 2 more",
        "- 09:01 `email` → `email:a@example.com` done after 4 min",
    ]
    assert text.index("## `mira/chat`") < text.index("## `doug`")


@pytest.mark.parametrize("verdict", [Verdict.CONFIRM, Verdict.ASK, Verdict.BLOCK])
def test_verdict_is_named_as_in_journal_watch_and_events(verdict: Verdict) -> None:
    held = call(NINE, verdict=verdict)
    assert listed(page(held)) == [f"- 09:00 `message` → `channel:#g` held back ({verdict}): by the policy"]
    assert f"- Held back: 1 {verdict}" in page(held)
    observed = call(NINE, body={"observed": verdict.value})
    assert f"done, only observed (`{verdict}`): by the policy" in page(observed)
    (_, blocked) = events_of(held)
    assert isinstance(blocked, SafetyBlocked)
    assert blocked.verdict == verdict
    assert show.verdict(verdict).plain == verdict


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("thread:andy:5", "thread:|5"), ("thread:andy:5",)),
        (("thread:|5", "email:thread:5"), ("email:thread:5",)),
        (("thread:|5",), ("thread:|5",)),
        (("thread:|5", "thread:andy:6"), ("thread:|5", "thread:andy:6")),
        (("channel:general|message", "channel:#general|message"), ("channel:#general|message",)),
        (("channel:general", "channel:#other"), ("channel:general", "channel:#other")),
        (("email:a@x.org", "email:b@x.org"), ("email:a@x.org", "email:b@x.org")),
    ],
)
def test_key_with_two_spellings_is_shown_once(keys: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert without_spellings(keys) == shown


def test_reads_and_small_writes_are_counts() -> None:
    reads = [call(NINE + n, "mira", "read", 0, f"file:/{n}") for n in range(41)]
    writes = [call(NINE + 100 + n, "mira", "write", 1, f"file:/out{n}") for n in range(3)]
    text = page(*reads, *writes)
    assert "read 41 times, wrote 3 times: `file:/out0`, `file:/out1`, `file:/out2`\n" in text
    assert not listed(text)
    assert "1 session, 44 calls, 0 held back." in text


def test_a_small_write_that_was_warned_is_listed_with_the_reason() -> None:
    conflict = Conflict(Kind.STALE, "doug", "write", 1, "file:/out", NINE, State.DONE, 12.0, running=True)
    for running, words in ((True, "`doug` was changing it"), (False, "`doug` had changed it 12 s before")):
        one = msgspec.structs.replace(conflict, running=running)
        body = {"conflicts": [one], "count": 1, "warning": "..."}
        entry = call(NINE + 9 * SECOND, "mira", "write", 1, "file:/out", verdict=Verdict.WARN, body=body)
        text = page(entry)
        assert reason_of(entry) == words.replace("`", ""), "F15: journal, report and console have the same words"
        assert listed(text) == [f"- 09:00 `write` → `file:/out` done, warned: {words}"]
        assert "- Let through: 1 with a warning" in text


ENDS = [
    (Outcome.DONE, Event.COMPLETE, {}, "done after 2 min"),
    (Outcome.FAILED, Event.COMPLETE, {"result": {"error": "550 no"}}, "failed: `550 no`"),
    (Outcome.FAILED, Event.COMPLETE, {"result": {"error": {"code": 550}}}, "failed: `{'code':550}`"),
    (Outcome.CANCELLED, Event.COMPLETE, {}, "cancelled"),
    (Outcome.UNKNOWN, Event.COMPLETE, {}, "**outcome unknown**"),
    (Outcome.UNKNOWN, Event.LAPSE, {"note": "the lease ran out"}, "**outcome unknown**: `the lease ran out`"),
    (Outcome.DONE, Event.RELEASE, {}, "done after 2 min"),
    (Outcome.FAILED, Event.RESOLVE, {"by": "anna"}, "failed (resolved by `anna`)"),
]


@pytest.mark.parametrize(("outcome", "event", "body", "words"), ENDS)
def test_outcome_of_an_action_is_shown(outcome: Outcome, event: Event, body: dict[str, object], words: str) -> None:
    act = call(NINE, tier=3)
    text = page(act, report(NINE + 150 * SECOND, act, outcome, event, **body))
    assert f"- 09:00 `message` → `channel:#g` {words}" in text.splitlines()


def test_action_without_a_report_is_open_above_tier_2_and_done_below() -> None:
    assert listed(page(call(NINE, tier=3)))[0].endswith("still open")
    assert listed(page(call(NINE, tier=2)))[0].endswith("done")
    assert "1 still open" in page(call(NINE, tier=3))
    assert "open" not in page(call(NINE, tier=2))


def test_unknown_outcome_is_at_the_top_until_it_is_resolved() -> None:
    act = call(NINE, tier=3)
    lapsed = report(NINE + SECOND, act, Outcome.UNKNOWN, Event.LAPSE, note="the lease ran out")
    late = report(NINE + 2 * SECOND, act, note="late: the lease had run out")
    assert "1 unknown outcome" in page(act, lapsed)
    assert "## Unknown outcomes" in page(act, lapsed)
    assert "nknown" not in page(act, lapsed, late)
    renewed = Entry(Event.RENEW, "mira", seq=NINE + 2 * SECOND, action=act.action)
    assert "nknown" not in page(act, lapsed, renewed)
    assert "1 still open" in page(act, lapsed, renewed)


def test_unknown_outcomes_are_sorted_by_tier_and_say_how_to_settle_them() -> None:
    acts = [call(NINE + n, tier=tier, key=f"k:{tier}{n}") for n, tier in enumerate((2, 4, 3, 4))]
    ends = [report(NINE + 10 + n, act, Outcome.UNKNOWN, Event.LAPSE) for n, act in enumerate(acts)]
    text = page(*acts, *ends)
    top = text[text.index("## Unknown outcomes") :].split("\n## ")[0].splitlines()
    assert "callosum resolve ID" in top[2]
    assert [line.partition("→ ")[2] for line in top if line.startswith("- ")] == [
        f"`k:{tier}{n}` **outcome unknown** (id `{NINE + n}`)" for n, tier in ((1, 4), (3, 4), (2, 3), (0, 2))
    ]


def test_run_of_equal_actions_is_one_line() -> None:
    done = [call(NINE + n * MINUTE, tool="bash", body={"summary": "make test"}) for n in range(4)]
    assert listed(page(*done)) == ["- 09:00 to 09:03 `bash` `make test` → `channel:#g` 4 times: done"]
    failed = report(NINE + 3 * MINUTE + 1, done[3], Outcome.FAILED, result={"error": "exit code 2"})
    assert listed(page(*done, failed)) == [
        "- 09:00 to 09:03 `bash` `make test` → `channel:#g` 4 times: 3 done, 1 failed: `exit code 2`"
    ]
    other = call(NINE + 2 * MINUTE + 1, tool="bash", body={"summary": "make lint"})
    assert len(listed(page(*done[:2], other, done[3]))) == 3


def test_prompt_is_shown_before_the_actions_that_serve_it() -> None:
    answer, tidy = {"purpose": "answer Alice about the invoice"}, {"purpose": "tidy up"}
    text = page(
        call(NINE, tool="read", tier=2, body={**answer, "summary": "invoice 12"}),
        call(NINE + MINUTE, tool="email", body={**answer, "summary": "Invoice: paid"}, key="email:a@example.com"),
        call(NINE + 2 * MINUTE, tool="rm", body=tidy),
    )
    assert listed(text) == [
        "- 09:00 was asked: `answer Alice about the invoice`",
        "- 09:00 `read` `invoice 12` → `channel:#g` done",
        "- 09:01 `email` `Invoice: paid` → `email:a@example.com` done",
        "- 09:02 was asked: `tidy up`",
        "- 09:02 `rm` → `channel:#g` done",
    ]


def test_small_work_for_one_purpose_is_one_line_with_what_failed() -> None:
    fix, tidy = {"purpose": "fix it"}, {"purpose": "tidy up"}
    edits = [call(NINE + n * MINUTE, tool="Edit", tier=1, key="file:/r/a.py", body=fix) for n in (1, 2)]
    run = call(NINE + 3 * MINUTE, tool="Bash", tier=1, key="", body={**fix, "summary": "make"})
    text = page(
        call(NINE, tool="Read", tier=0, key="file:/r/a.py", body=fix),
        *edits,
        run,
        report(NINE + 3 * MINUTE + 1, edits[0], Outcome.FAILED, result={"error": "no such text"}),
        report(NINE + 3 * MINUTE + 2, run, Outcome.FAILED, result={"error": {"message": "exit code 2", "code": 2}}),
        call(NINE + 4 * MINUTE, tool="Read", tier=0, key="file:/r/b.py", body=tidy),
    )
    assert listed(text) == [
        "- 09:00 was asked: `fix it`",
        "- 09:00 to 09:03 read once, changed or ran `file:/r/a.py` 2 times, `make`; 2 failed: `make`: `exit code 2`",
        "- 09:04 was asked: `tidy up`",
        "- 09:04 read once",
    ]


def test_small_call_that_was_held_back_says_when_it_ran() -> None:
    fix = {"purpose": "fix it"}
    held = call(NINE, tool="Edit", tier=1, key="file:/r/a.py", body=fix, verdict=Verdict.CONFIRM, rule="r")
    ran = call(NINE + MINUTE, tool="Edit", tier=1, key="file:/r/a.py", body=fix)
    assert listed(page(held, ran)) == [
        "- 09:00 was asked: `fix it`",
        "- 09:00 `Edit` → `file:/r/a.py` held back (confirm): rule `r`; let through at 09:01",
        "- 09:01 changed or ran `file:/r/a.py`",
    ]


def test_page_shows_only_warnings_that_the_session_read() -> None:
    seen = {"conflicts": [recent("doug", "t", "k")]}
    assert "doug" not in page(call(NINE, tier=3, body=seen))
    assert "warned: `doug`" in page(call(NINE, tier=3, verdict=Verdict.WARN, body={**seen, "warning": "doug acted"}))


def test_questions_and_their_answers_are_shown() -> None:
    asked = call(NINE, tier=3, verdict=Verdict.ASK, rule="ask-first")
    approved = Entry(Event.APPROVE, "mira", seq=NINE + 1, action=asked.seq, body={"by": "anna", "channel": "cli"})
    silent = report(NINE + 2, asked, Outcome.CANCELLED, Event.LAPSE, note="nobody answered")
    assert listed(page(asked)) == ["- 09:00 `message` → `channel:#g` held back (ask): rule `ask-first`"]
    assert "held back (ask; approved by `anna` through `cli`)" in page(asked, approved)
    assert "- People: 1 approved" in page(asked, approved)
    assert "(ask; nobody answered)" in page(asked, silent)
    assert "; approved" in page(asked, approved, silent)


def test_action_over_midnight_is_on_the_day_of_its_end() -> None:
    before = call(start_of(DAY) - SECOND, "doug", "email", 3, "email:a@example.com")
    text = page(report(start_of(DAY) + 120 * SECOND, before))
    assert listed(text) == ["- 00:02 `email` → `email:a@example.com` done, begun on an earlier day"]
    assert "1 session, 0 calls" in text


def test_a_call_without_keys_shows_its_first_text() -> None:
    text = page(call(NINE, tool="exec", tier=4, key="", body={"params": {"n": 1, "command": "git push --force"}}))
    assert listed(text) == ["- 09:00 `exec` `git push --force` still open"]


def test_two_namespaces_are_two_sessions() -> None:
    text = page(call(NINE), call(NINE + 1, namespace="work"))
    assert "## `mira`\n" in text
    assert "## `mira` in `work`\n" in text


def test_entries_of_other_days_and_repeated_ones_are_skipped() -> None:
    act = call(NINE)
    assert page(call(start_of(DAY) - 1), act, act, call(start_of(DAY + timedelta(days=1)))) == page(act)


def test_a_day_fed_in_two_parts_makes_the_same_page() -> None:
    entries = [call(NINE + n * SECOND, f"s{n % 5}", tier=n % 5) for n in range(200)]
    day = DayPage(DAY)
    for entry in entries[:100]:
        day.add(entry)
    day.page(so_far=True)
    for entry in entries[100:]:
        day.add(entry)
    assert day.page(so_far=True) == page(*entries, so_far=True)


def test_page_stays_small_and_counts_what_it_left_out() -> None:
    acts = [call(NINE + n, "mira", key=f"k:{n}") for n in range(FIRST + LAST + 500)]
    text = page(*acts)
    assert len(listed(text)) == FIRST + LAST
    assert "- … 500 acts left out here" in text
    assert "`k:0`" in text
    assert f"`k:{FIRST + LAST + 499}`" in text

    many = [call(NINE + n, f"s{n}") for n in range(SESSIONS + OTHERS + 30)]
    text = page(*many)
    assert len(listed(text)) == SESSIONS
    assert "## Other sessions" in text
    assert "- and 30 more sessions, with 30 calls" in text
    assert f"## `s{SESSIONS + OTHERS + 29}`" in text  # the sessions that acted last are described in detail


def test_a_hostile_day_keeps_memory_bounded() -> None:
    day = DayPage(DAY)
    for n in range(30_000):
        act = call(NINE + 2 * n, f"s{n % 15_000}", tier=3, key=f"k:{n}")
        day.add(act)
        day.add(report(NINE + 2 * n + 1, act, Outcome.UNKNOWN, Event.LAPSE))
    assert len(day._sessions) == 10_000
    assert len(day._index) <= SESSIONS * (FIRST + LAST)
    assert len(day._pending._acts) == len(day.counts.unknown) == UNKNOWNS
    text = day.page(so_far=True)
    assert "30,000 unknown outcomes" in text
    assert len(text) < 1_000_000


def test_the_most_frequent_survive_when_there_is_no_room() -> None:
    top = MostFrequent(10)
    for n in range(1000):
        top.add(f"rare{n}")
        top.add("often")
    assert not top.complete
    assert top.most(1) == [("often", 1000)]
    assert len(top) <= 20


def test_an_open_lease_of_an_earlier_day_is_not_counted_twice() -> None:
    counts = JournalTotals(NINE)
    counts.add(report(NINE + 1, call(NINE - 5, tier=3)))
    assert counts.open == 0
    act = call(NINE + 2, tier=3)
    counts.add(act)
    assert counts.open == 1
    counts.add(report(NINE + 3, act, Outcome.UNKNOWN, Event.LAPSE))
    counts.add(report(NINE + 4, act))
    assert (counts.open, counts.unknowns, counts.calls) == (0, 0, 1)


def test_a_digest_counts_sessions_tools_keys_and_conflicts() -> None:
    week = WeekPage(monday_of(DAY))
    for n in range(3):
        week.add(call(NINE + n, "mira"))
    week.add(
        call(
            NINE + 5,
            "doug",
            "email",
            3,
            "email:a@example.com",
            verdict=Verdict.CONFIRM,
            body={"conflicts": [recent("doug", "t", "k")]},
        )
    )
    week.add(call(start_of(monday_of(DAY)) - 1, "before"))
    text = week.page({DAY: "2 sessions, 4 calls, 1 held back. Last entry at 09:05.", date(2027, 3, 17): "<b>"})
    assert text.splitlines()[0] == "# 2027-W11, 2027-03-15 to 2027-03-21"
    assert text.splitlines()[2] == "2 sessions, 4 calls, 1 held back."
    assert "- [2027-03-16](../episodes/2027-03-16.md): 2 sessions, 4 calls, 1 held back. Last entry at 09:05\n" in text
    assert "- [2027-03-17](../episodes/2027-03-17.md)\n" in text
    assert "- `mira`: 3 calls\n- `doug`: 1 call, 1 held back\n" in text
    assert "- `channel:#g`: 3 calls" in text
    assert "- recent: once" in text
    assert "before" not in text


def test_digest_shows_purposes_with_results_and_open_actions() -> None:
    week = WeekPage(monday_of(DAY))
    asked = {"purpose": "answer Alice"}
    mailed = call(NINE, "mira", "email", 3, "email:a@example.com", body={**asked, "summary": "Invoice: paid"})
    held = call(NINE + 3, "mira", "pay", 4, "account:acme", body=asked)
    lost = call(NINE + 4, "doug", "deploy", 4, "host:prod")
    for entry in (mailed, report(NINE + 1, mailed), held, lost, report(NINE + 5, lost, Outcome.UNKNOWN, Event.LAPSE)):
        week.add(entry)
    parts = dict(part.split("\n\n", 1) for part in week.page({}).split("\n## ")[1:])
    assert parts["What was done"].splitlines()[:2] == [
        "- Tue `mira`, asked `answer Alice`: 2 acts, last `pay`",
        "- Tue `doug`: 1 act, last `deploy`",
    ]
    assert "`deploy` → `host:prod` **outcome unknown**" in parts["Unknown outcomes"]
    assert "`mira` `pay` → `account:acme` still open" in parts["Still open at the end of the week"]


def returns(*acts: tuple[int, str, str]) -> TopicFinder:
    found = TopicFinder()
    for day, session, key in acts:
        found.add(call(NINE + day * 86_400 * SECOND + len(acts), session, key=key))
    return found


def test_a_key_of_three_sessions_on_two_days_is_a_topic() -> None:
    later = DAY + timedelta(days=1)
    assert returns((0, "a", "k"), (0, "b", "k"), (1, "c", "k")).topics(later) == [("k", "default")]
    assert returns((0, "a", "k"), (0, "b", "k"), (1, "a", "k")).topics(later) == []  # two sessions
    assert returns((1, "a", "k"), (1, "b", "k"), (1, "c", "k")).topics(later) == []  # one day
    assert returns((0, "a", "k"), (0, "b", "k"), (1, "c", "k")).topics(DAY + timedelta(days=7)) == []  # too long ago


def test_working_folder_is_not_a_topic() -> None:
    acts = ((0, "a", "file:/repo/"), (0, "b", "file:/repo/"), (1, "c", "file:/repo/"))
    assert returns(*acts).topics(DAY + timedelta(days=1)) == []


def test_reads_and_other_namespaces_make_no_topic() -> None:
    found = TopicFinder()
    for n, session in enumerate("abc"):
        found.add(call(NINE + n * 86_400 * SECOND, session, tier=1, key="k", mode=Mode.READ))
        found.add(call(NINE + n * 86_400 * SECOND + 1, session, key="k", namespace=session))
    assert found.topics(DAY + timedelta(days=2)) == []


def test_call_while_the_gate_was_unreachable_counts_for_a_topic() -> None:
    entries = [
        structs.replace(call(NINE + day * 86_400 * SECOND + n, who, key="k"), event=Event.LATE, outcome=Outcome.DONE)
        for n, (day, who) in enumerate(((0, "a"), (0, "b"), (1, "c")))
    ]
    found, topic = TopicFinder(), TopicPage("k")
    for entry in entries:
        found.add(entry)
        topic.add(entry)
    assert found.topics(DAY + timedelta(days=1)) == [("k", "default")]
    assert topic.page().count("done, ran while the gate was away") == 3


def test_topic_drops_actions_before_its_window() -> None:
    topic = TopicPage("k")
    first = call(NINE, "a", key="k")
    topic.add(first)
    topic.add(call(NINE + 86_400 * SECOND, "b", key="k"))
    topic.changed = False
    topic.forget(DAY + timedelta(days=6))
    assert not topic.changed
    topic.forget(DAY + timedelta(days=7))
    assert topic.changed
    assert topic.page().splitlines()[2] == "1 session, 1 call since 2027-03-17."
    topic.add(report(NINE + 8 * 86_400 * SECOND, first))  # as to a session that was never notified of it
    assert "`a`" not in topic.page()


def test_topic_lists_actions_newest_first() -> None:
    topic = TopicPage("k")
    first = call(NINE, "a", "message", 3, "k")
    topic.add(first)
    topic.add(call(NINE + 86_400 * SECOND, "b", key="k", verdict=Verdict.BLOCK))
    topic.add(report(NINE + 86_401 * SECOND, first, Outcome.FAILED, result={"error": "no"}))
    lines = topic.page().splitlines()
    assert lines[0] == "# `k`"
    assert lines[2] == "2 sessions, 2 calls since 2027-03-16, 1 of the last 2 held back."
    assert [line for line in lines if line.startswith("- 2027")] == [
        "- 2027-03-17 09:00 `b` `message` held back (block): by the policy",
        "- 2027-03-16 09:00 `a` `message` failed: `no`",
    ]


def test_a_topics_page_is_bounded() -> None:
    topic = TopicPage("k")
    for n in range(ACTS + 50):
        topic.add(call(NINE + n, f"s{n}", key="k"))
    assert topic.page().count("\n- 2027") == ACTS
    assert topic.page().endswith("- and 50 earlier acts\n")


SLUGS = [
    ("notes", "notes"), ("a.b_c-1", "a.b_c-1"), ("Notes", "notes-"), ("channel:#general", "channel-general-"), ("../../etc/passwd", "etc-passwd-"),
    (".", ""), ("..", ""), ("", ""), (".hidden", "hidden-"), ("con", "con-"), ("nul.txt", "nul-txt-"), ("a/b", "a-b-"), ("a\x00b\nc", "a-b-c-"),
    ("日本語", ""), ("x" * 1024, "x" * 60 + "-"), ("a-", "a-"), ("\ud800", ""),
]  # fmt: skip


@pytest.mark.parametrize(("key", "start"), SLUGS)
def test_slugs_are_safe_file_names(key: str, start: str, tmp_path: Path) -> None:
    slug = slug_of(key)
    assert slug.startswith(start)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", slug)
    assert len(slug) <= 80
    (tmp_path / f"{slug}.md").touch()


def test_two_keys_never_share_a_slug() -> None:
    keys = ["a:b", "a-b", "A-b", "a/b", "a b", "a-b-", "a.b", *(key for key, _ in SLUGS)]
    slugs = [slug_of(key, space) for key in dict.fromkeys(keys) for space in ("default", "work")]
    assert len(set(slugs)) == len(slugs)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_days_are_local_and_as_long_as_the_clocks_make_them(berlin: None) -> None:
    spring, autumn = date(2027, 3, 28), date(2027, 10, 31)
    hours = [(start_of(day + timedelta(days=1)) - start_of(day)) / 3600 / SECOND for day in (spring, DAY, autumn)]
    assert hours == [23, 24, 25]
    for day in (spring, DAY, autumn):
        assert day_of(start_of(day)) == day
        assert day_of(start_of(day) - 1) == day - timedelta(days=1)
        assert clock(start_of(day)) == "00:00"


def test_weeks_are_iso_weeks_at_the_turn_of_the_year_too() -> None:
    assert week_of(date(2026, 5, 16)) == "2026-W20"
    assert week_of(date(2027, 1, 1)) == "2026-W53"
    assert monday_of(date(2027, 1, 1)) == date(2026, 12, 28)


def test_a_page_is_written_for_its_owner_alone_and_only_when_it_changed(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "deep" / "state")
    with folder.alone("episodes") as alone:
        assert alone
        assert folder.write("episodes/x.md", "one")
        assert not folder.write("episodes/x.md", "one")
        assert folder.write("episodes/x.md", "two")
    assert folder.read("episodes/x.md") == "two"
    assert [path.name for path in (folder.root / "episodes").iterdir()] == ["x.md"]
    for path in (folder.root, folder.root / "episodes"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder.root / "episodes" / "x.md").stat().st_mode) == 0o600


def test_only_one_holds_the_lock(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path)
    with folder.alone("a") as first, PageFolder(tmp_path).alone("a") as second, folder.alone("b") as other:
        assert (first, second, other) == (True, False, True)
    with folder.alone("a") as again:
        assert again


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path)
    folder.write("episodes/x.md", "one")
    (folder.root / "episodes" / ".x.md.part").mkdir()  # where the draft would be written
    with pytest.raises(StoreError, match=r"x\.md cannot be written"):
        folder.write("episodes/x.md", "two")
    assert folder.read("episodes/x.md") == "one"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"), PageFolder(tmp_path / "file").alone("a"):
        pass
