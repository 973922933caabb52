"""Names that sessions choose, as labels of metrics and attributes of spans."""

from functools import partial

import pytest

from callosum.corpus.entry_events import events_of
from callosum.corpus.events import ToolFailed
from callosum.model import Entry, Event, Outcome
from callosum.telemetry.labels import OTHER, LabelLimit, error_type, line
from tests.support.threads import all_at_once


def test_first_names_are_kept_and_all_others_share_one() -> None:
    few = LabelLimit(2)
    assert [few(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]
    assert few("") == few(None) == ""


def test_threads_that_bring_new_names_at_once_stay_within_the_limit() -> None:
    few = LabelLimit(50)
    seen: list[str] = []

    def bring(first: int) -> None:
        seen.extend(few(f"tool-{number}") for number in range(first, first + 100))

    all_at_once([partial(bring, first) for first in (0, 30, 60, 90)])
    assert len(set(seen) - {OTHER}) == 50
    assert OTHER in seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("send_email", "send_email"),
        ("ünal", "ünal"),
        ("a\nb\tc", "a b c"),
        ("x\x1b[31mred", "x[31mred"),
        ("lone \ud800 half", "lone half"),
        ("right\u202eleft", "rightleft"),
        ("n" * 5000, "n" * 255 + "…"),
    ],
)
def test_a_name_is_one_line_that_can_be_encoded(text: str, shown: str) -> None:
    assert line(text) == shown
    line(text).encode()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("TimeoutError: no answer after 30 s", "TimeoutError"),
        ("requests.exceptions.ReadTimeout: host", "requests.exceptions.ReadTimeout"),
        ("KeyError", "KeyError"),
        ("failed", "failed"),
        ("cancelled: it was let through and did not run", "cancelled"),
        ("nobody knows how it ended: the process was killed", "unknown"),
        ("ghp_1234567890abcdefghij1234567890abcdef", "_OTHER"),
        ("no such file: /home/anna/plan.txt", "_OTHER"),
        ("Sk1-secret-9: x", "_OTHER"),
        ("", "_OTHER"),
        ("A" * 10_000 + ":", "_OTHER"),
    ],
)
def test_an_error_is_named_without_its_content(error: str, kind: str) -> None:
    assert error_type(error) == kind


@pytest.mark.parametrize(("outcome", "kind"), [(Outcome.UNKNOWN, "unknown"), (Outcome.CANCELLED, "cancelled")])
def test_known_outcomes_have_their_own_label(outcome: Outcome, kind: str) -> None:
    entry = Entry(Event.COMPLETE, "mira", seq=2_000_000, action=1_000_000, tool="act", outcome=outcome)
    (failed,) = events_of(entry)
    assert isinstance(failed, ToolFailed)
    assert error_type(failed.error) == kind
