"""The reference page of all events: built from the classes, complete, and equal to the one in docs/."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from msgspec import Meta, Struct

from callosum.corpus.events import CATALOGUE, CorpusEvent, Milliseconds, decode, encode
from website.events import described, description, example, has_number, page, units

ROOT = Path(__file__).resolve().parents[2]
KINDS = [CorpusEvent, *(kind for kind in CATALOGUE.values() if kind.__module__ == "callosum.corpus.events")]
COMMON = set(CorpusEvent.__struct_fields__)


def test_page_in_docs_matches_the_output_of_the_command() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "website.events"], capture_output=True, check=True, cwd=ROOT, timeout=60
    )
    kept = (ROOT / "docs" / "events.md").read_bytes()
    assert made.stdout == kept, "python -m website.events > docs/events.md"
    assert made.stderr == b""


def faults(kind: type[Struct]) -> list[str]:
    """Return the missing docstrings, descriptions and units of a class."""
    found = [] if "__doc__" in vars(kind) and (kind.__doc__ or "").strip() else [f"{kind.__name__} has no docstring"]
    for one in described(kind):
        if not description(one):
            found.append(f"{kind.__name__}.{one.name} has no description")
        if has_number(one.type) and not units(one.type):
            found.append(f"{kind.__name__}.{one.name} has no unit")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_class_and_field_is_described(kind: type[CorpusEvent]) -> None:
    assert faults(kind) == []


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.dotted)
def test_every_event_has_an_example_with_all_its_own_fields(kind: type[CorpusEvent]) -> None:
    event = example(kind)
    written = json.loads(encode(event))
    own = {one.encode_name for one in described(kind) if one.name not in COMMON}
    assert set(written) >= own
    for one in described(kind):
        if one.name in own:
            assert written[one.encode_name] not in ("", "…", {}, [], None)
    if kind.remote:
        decode(kind.dotted, {**written, "instance": "mira"})


@pytest.fixture
def added() -> Iterator[type[CorpusEvent]]:
    class WindowOpened(CorpusEvent, frozen=True):
        """A ``window`` was opened.

        It may
        rain.
        """

        dotted: ClassVar[str] = "health.windowOpened"
        region: ClassVar[str] = "Hypothalamus"

        side: Annotated[str, Meta(description="left | right", examples=["left"])]
        open_for: Annotated[Milliseconds, Meta(description="how long it has been open", examples=[310.5])]
        width: int
        signs: tuple[bool, ...] = ()
        anything: Any = None
        share: Annotated[float, Meta(ge=0, le=1)] | None = None

    yield WindowOpened
    del CATALOGUE["health.windowOpened"]


@pytest.fixture
def bare() -> Iterator[type[CorpusEvent]]:
    class Bare(CorpusEvent, frozen=True):
        dotted: ClassVar[str] = "bare.event"
        region: ClassVar[str] = "House"

        metrics: Mapping[str, float]

    yield Bare
    del CATALOGUE["bare.event"]


def test_an_event_that_is_added_is_on_the_page(added: type[CorpusEvent]) -> None:
    made = page()
    section = made.partition("### health.windowOpened\n")[2]
    expected = """
A `window` was opened.

It may rain.

`WindowOpened`, emitted by Hypothalamus. Hosts cannot report it.

| field | type | meaning and unit |
| --- | --- | --- |
| `side` | text | left \\| right |
| `openFor` | number ≥ 0 | how long it has been open (unit: milliseconds) |
| `width` | integer |  |
| `signs` | list of true or false, optional |  |
| `anything` | anything, optional |  |
| `share` | number, 0 to 1, optional |  |

```json
{"side":"left","openFor":310.5,"width":1,"at":1778922906.2}
```
"""
    assert section.startswith(expected)
    assert "| [`health.windowOpened`](#healthwindowopened) | Hypothalamus |  | A `window` was opened. |" in made
    # in its family, not at the end
    assert made.index("### health.critical") < made.index("### health.windowOpened") < made.index("## resource")


def test_missing_descriptions_are_found(added: type[CorpusEvent], bare: type[CorpusEvent]) -> None:
    assert faults(added) == [
        "WindowOpened.width has no description",
        "WindowOpened.width has no unit",
        "WindowOpened.signs has no description",
        "WindowOpened.anything has no description",
        "WindowOpened.share has no description",
        "WindowOpened.share has no unit",
    ]
    assert faults(bare) == ["Bare has no docstring", "Bare.metrics has no description", "Bare.metrics has no unit"]
    assert "### bare.event" in page()


def test_an_example_that_the_field_cannot_have_is_refused() -> None:
    class Wrong(CorpusEvent, frozen=True):
        """It is wrong."""

        dotted: ClassVar[str] = "wrong.example"
        region: ClassVar[str] = "House"

        took: Annotated[Milliseconds, Meta(description="how long", examples=[-1.0])]

    try:
        with pytest.raises(msgspec.ValidationError):
            example(Wrong)
    finally:
        del CATALOGUE["wrong.example"]
