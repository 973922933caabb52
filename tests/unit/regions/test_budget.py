"""RAS: a brief cut to any budget keeps whole lines, the most important ones, and counts the lines left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.brief import HEAD, Brief, Section, brief_of
from callosum.characters import measure, tokens
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ContextTrimmed
from callosum.errors import ConfigError
from callosum.regions.budget import BUDGET, RAS

SECTIONS = (
    Section("Running", tuple(f'doug/{number} is working on "file:/repo/{number}.py" (edit).' for number in range(4))),
    Section("Done", tuple(f'anna acted on "doc:{number}" {number} s ago (save).' for number in range(5))),
    Section("Elsewhere", ('vera acted on "email:a@example.com" 3 s ago (send).',)),
)
WHOLE = brief_of(SECTIONS)


@pytest.fixture
def trimmed(corpus: Corpus) -> list[ContextTrimmed]:
    seen: list[ContextTrimmed] = []
    corpus.on(ContextTrimmed, seen.append)
    return seen


def test_brief_is_rendered_as_text() -> None:
    lines = WHOLE.text.splitlines()
    assert lines[:3] == [HEAD, "Running:", f"- {SECTIONS[0].lines[0]}"]
    assert len(lines) == 1 + 3 + 10
    assert (WHOLE.tokens, WHOLE.trimmed) == (tokens(WHOLE.text), 0)
    assert brief_of(SECTIONS, 3).text == WHOLE.text + "\n(3 more lines were left out.)"
    assert brief_of(SECTIONS, 1).text == WHOLE.text + "\n(1 more line was left out.)"
    assert brief_of([Section("Nothing", ())]) == Brief()


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0), ("a", 1, 1), ("The quick brown fox jumps over the lazy dog.", 10, 20),
        ("file:/home/mira/repo/src/app.py", 9, 20), ("1795312064557441", 6, 16), ("東京都庁に連絡", 7, 14), ("🚀🚀🚀", 3, 9),
        ("\ud800", 1, 1),
    ],
)  # fmt: skip
def test_tokens_are_estimated_on_the_safe_side(text: str, least: int, most: int) -> None:
    """``least``: tokenizers hardly go below it; ``most``: they never exceed it."""
    assert least <= tokens(text) <= most


@given(st.lists(st.text(max_size=40), max_size=20))
def test_measures_of_lines_add_up(lines: list[str]) -> None:
    whole = "\n".join(lines)
    assert measure(whole) == sum(map(measure, lines)) + 2 * max(0, len(lines) - 1)


def test_brief_that_fits_is_returned_unchanged(corpus: Corpus, trimmed: list[ContextTrimmed]) -> None:
    ras = RAS(corpus)
    assert ras.budget == BUDGET
    assert ras.trim(WHOLE) is WHOLE
    assert ras.trim(WHOLE, WHOLE.tokens) is WHOLE
    assert ras.trim(Brief(), 0) == Brief()
    assert trimmed == []
    ras.close()


def test_least_important_lines_are_dropped_first(corpus: Corpus, trimmed: list[ContextTrimmed]) -> None:
    cut = RAS(corpus, 170).trim(WHOLE, instance="mira", namespace="work")
    assert cut.sections[0] == SECTIONS[0]
    assert cut.sections[1].lines == SECTIONS[1].lines[: len(cut.sections[1].lines)]
    assert len(cut.sections) == 2
    left = 10 - sum(len(section.lines) for section in cut.sections)
    assert cut.trimmed == left
    assert cut.text.splitlines()[-1] == f"({left} more lines were left out.)"
    (event,) = trimmed
    assert (event.before, event.after, event.dropped) == (WHOLE.tokens, cut.tokens, 1)
    assert (event.instance, event.namespace) == ("mira", "work")


@pytest.mark.parametrize("budget", range(0, 280, 7))
def test_brief_stays_within_any_budget(corpus: Corpus, budget: int) -> None:
    cut = RAS(corpus).trim(WHOLE, budget)
    assert cut.tokens == tokens(cut.text) <= max(budget, 0)
    told = [line for section in cut.sections for line in section.lines]
    if cut.text:
        assert told
        assert cut.trimmed == 10 - len(told)
        assert [line for line in told if not line.endswith("…")] == [
            line for section in SECTIONS for line in section.lines
        ][: len(told)]


@pytest.mark.parametrize("budget", [0, 1, 50])
def test_brief_is_empty_if_nothing_fits(corpus: Corpus, trimmed: list[ContextTrimmed], budget: int) -> None:
    """A host then injects nothing: a heading alone is useless."""
    assert RAS(corpus).trim(WHOLE, budget) == Brief(trimmed=10)
    assert (trimmed[0].after, trimmed[0].dropped) == (0, 3)


def test_a_single_overlong_line_is_shortened(corpus: Corpus) -> None:
    """Only this line is shortened, and no quotation stays open."""
    long = brief_of([Section("Running", (f'doug is working on "{"é" * 300}" and "{"x" * 3000}".', "second"))])
    cut = RAS(corpus).trim(long, 200)
    (line,) = cut.sections[0].lines
    assert cut.tokens <= 200
    assert line.startswith("doug is working on")
    assert line.rstrip('"').endswith("…")
    assert line.count('"') % 2 == 0
    assert cut.trimmed == 1


def test_lines_left_out_before_are_counted(corpus: Corpus) -> None:
    cut = RAS(corpus).trim(brief_of(SECTIONS, 7), 130)
    assert cut.trimmed == 7 + 10 - sum(len(section.lines) for section in cut.sections)
    assert RAS(corpus).trim(cut, 90).trimmed > cut.trimmed


LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=120)


@given(
    st.lists(st.builds(Section, LINE, st.lists(LINE, max_size=6).map(tuple)), max_size=5),
    st.integers(0, 400),
    st.integers(0, 9),
)
def test_any_brief_fits_any_budget(sections: list[Section], budget: int, before: int) -> None:
    brief = brief_of(sections, before)
    with Corpus() as corpus:
        cut = RAS(corpus).trim(brief, budget)
    total = sum(len(section.lines) for section in brief.sections)
    kept = sum(len(section.lines) for section in cut.sections)
    assert cut.tokens <= max(budget, 0) or cut is brief
    assert cut.tokens == tokens(cut.text)
    assert cut.trimmed == before + total - kept
    assert bool(cut.text) == bool(kept)


def test_very_many_lines_are_shortened_quickly(corpus: Corpus) -> None:
    huge = brief_of([Section("Done", tuple(f"doug acted on {number}." for number in range(50_000)))])
    cut = RAS(corpus).trim(huge)
    assert cut.tokens <= BUDGET
    assert cut.trimmed + len(cut.sections[0].lines) == 50_000


@pytest.mark.parametrize("budget", [-1, 1.5, True, "600", 10**9])
def test_invalid_budget_is_refused(corpus: Corpus, budget: int) -> None:
    with pytest.raises(ConfigError) as refused:
        RAS(corpus).trim(WHOLE, budget)
    assert refused.value.at == "budget"
    with pytest.raises(ConfigError):
        RAS(corpus, budget)
