"""The tables of ``docs/frameworks.md``, made from the frameworks' descriptions: ``python -m tests.adapters.matrix``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.adapters.harness import BEHAVIOURS, Framework, every_framework

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/frameworks.md"


def written(page: str) -> str:
    """Return the page with its tables made anew."""
    frameworks = list(every_framework().values())
    tables = {"frameworks": adapters, "sessions": sessions, "answers": answers, "behaviours": behaviours}
    for name, table in tables.items():
        before, begins, rest = page.partition(f"<!-- {name} -->\n")
        _, ends, after = rest.partition("<!-- end -->")
        assert begins, f"{PAGE.name}: no place for the table {name!r}"
        assert ends, f"{PAGE.name}: no end of the table {name!r}"
        page = f"{before}{begins}{table(frameworks)}\n{ends}{after}"
    return page


def adapters(frameworks: Sequence[Framework]) -> str:
    """Return the adapter's package and code for each framework."""
    return _table(
        ("framework", "install", "what a program writes"),
        ((_linked(one), f"`pip install 'callosum-protocol[{one.extra}]'`", one.writes) for one in frameworks),
    )


def sessions(frameworks: Sequence[Framework]) -> str:
    """Return the meaning of a session for each framework."""
    return _table(
        ("framework", "the conversation", "session of an agent that a tool runs"),
        ((one.name, one.conversation, one.nested) for one in frameworks),
    )


def answers(frameworks: Sequence[Framework]) -> str:
    """Return how each framework delivers the gate's answers."""
    return _table(
        ("framework", "a refusal", "around the sentence", "a question for a person", "what no adapter sees"),
        ((one.name, one.refusal, _around(one), one.question, one.unseen) for one in frameworks),
    )


def behaviours(frameworks: Sequence[Framework]) -> str:
    """Return which behaviour holds for which framework, and why one does not."""
    remarks: list[str] = []

    def cell(behaviour: str, framework: Framework) -> str:
        remark = framework.cannot.get(behaviour) or framework.notes.get(behaviour)
        if behaviour == "streaming" and "streamed" not in framework.modes and remark is None:
            remark = "the framework does not stream"
        said = "no" if behaviour in framework.cannot else "yes"
        if remark is None:
            return said
        remarks.append(f"{len(remarks) + 1}. {framework.name}, {behaviour}: {remark}")
        return f"{said} ({len(remarks)})"

    rows = [
        (f"**{name}**: {meaning}", *(cell(name, framework) for framework in frameworks))
        for name, meaning in BEHAVIOURS.items()
    ]
    return _table(("", *(one.name for one in frameworks)), rows) + "\n\n" + "\n".join(remarks)


def page_of(framework: Framework) -> Path:
    """Return where a framework's quickstart is."""
    return PAGE.parent / f"quickstarts/{framework.module}.md"


def _linked(framework: Framework) -> str:
    page = page_of(framework)
    return f"[{framework.name}]({page.relative_to(PAGE.parent)})" if page.exists() else framework.name


def _around(framework: Framework) -> str:
    if framework.around == "{sentence}":
        return "nothing"
    return f"`{framework.around.format(sentence='...', tool='TOOL')}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
