"""The page about all events, ``docs/events.md``, made from their classes.

``python -m callosum.corpus.page > docs/events.md`` writes it anew; a test says when that is due.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from callosum.corpus.events import CATALOGUE, CorpusEvent, encode

HEAD: Final = """\
# The events

Made from the classes in `callosum/corpus/events.py` by `python -m callosum.corpus.page > docs/events.md`. Change the
classes, not this page.

An event has a dotted name and a payload: a JSON object in camelCase. In Python it is an object of the event's class,
with the same fields in snake_case (`toolName` is `tool_name`). A field that is optional is absent where it is unknown.

## To subscribe

```python
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ToolCompleted

corpus = Corpus()
off = corpus.on(ToolCompleted, lambda event: print(event.name, event.duration))
corpus.on("safety.*", lambda type, event: print(type, event.tool_name))
corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0))
off()
```

`on` takes a class, a dotted name, or a pattern (`tool.*`, `*` for all). A handler for a pattern is called with the
dotted name and the event, any other with the event. It returns the function that unsubscribes; without a handler it
is a decorator. A type checker refuses a wrong payload.

`emit` also takes the dotted name and the payload as JSON would hold it. A name or a payload that is wrong raises
`ConfigError` with the field:

```python
corpus.emit("tool.called", {"name": "shell_exec", "args": {"command": "ls -la"}, "taskId": "TASK-42"})
```

Outside of the process `callosum events --follow 'safety.*'` shows events as they come, and a server streams them:
`GET /events?types=safety.*,tool.called` (server-sent events: the dotted name is the `event`, the payload the `data`;
with `Last-Event-ID` a reader goes on where it was). A reader that was too slow, or that comes back after the server has
forgotten some events, gets `stream.dropped` with their `count` in their place, and with `"atLeast": true` where there
may be more; decisions (`safety.*`) are never among them. An event that a host may report is taken in by
`POST /events`, its name under `type` beside the fields of the payload.

## To add one

Write one class in `callosum/corpus/events.py`:

```python
class WindowOpened(CorpusEvent, frozen=True):
    \"\"\"A window was opened.\"\"\"

    dotted: ClassVar[str] = "window.opened"
    region: ClassVar[str] = "Hypothalamus"

    side: Annotated[str, Meta(description="left or right", examples=["left"])]
    open_for: Annotated[Milliseconds, Meta(description="how long it has been open", examples=[310.5])]
```

`dotted` is its name, `region` who emits it. `remote: ClassVar[bool] = True` lets hosts report it. Each field says what
it means in its `description`; the unit of a number stands in its type. From then on it can be emitted, is logged and
streamed, and this page has it once it is made anew.

## The daily log

`brain/corpus/YYYY-MM-DD.log.md` in the state folder, a file a day in local time, each event on a line:

```
## 2026-05-16

09:15:04 | tool.called | {"name":"github_prs","args":{"state":"open"},"taskId":"TASK-89","instance":"mira"}
09:15:06 | tool.completed | {"name":"github_prs","output":"3 open","duration":1204.0,"instance":"mira"}
```

The payload is there without `at`, which stands in front of it, and without secrets. The pieces of a streamed answer
(`llm.token`) are one line. Lines are written in batches every two seconds and at the end of a process. Files older
than seven days are removed.

## All of them
"""

_COLUMNS: Final = ("field", "type", "meaning and unit")


def page() -> str:
    """Returns the page as Markdown, its events grouped by the first word of their names, in the order of definition."""
    families: dict[str, list[type[CorpusEvent]]] = {}
    for name, kind in CATALOGUE.items():
        families.setdefault(name.partition(".")[0], []).append(kind)
    kinds = [kind for family in families.values() for kind in family]
    return "\n".join(
        [
            HEAD,
            *_table(
                ("event", "emitted by", "hosts may report it", "what happened"),
                [
                    (_link(kind.dotted), _emitter(kind), "yes" if kind.remote else "", _paragraphs(kind)[0])
                    for kind in kinds
                ],
            ),
            "",
            "## What they have in common",
            "",
            "Every event carries these, as far as they are known.",
            "",
            *_fields(CorpusEvent),
            *(line for name, family in families.items() for line in _family(name, family)),
            "",
        ]
    )


def _family(name: str, kinds: Sequence[type[CorpusEvent]]) -> Iterator[str]:
    yield from ("", f"## {name}")
    for kind in kinds:
        yield from ("", f"### {kind.dotted}", "")
        for paragraph in _paragraphs(kind):
            yield from (paragraph, "")
        told = "Hosts may report it." if kind.remote else "No host may report it."
        yield from (f"`{kind.__name__}`, emitted by {_emitter(kind)}. {told}", "")
        yield from _fields(kind, kind.__struct_fields__[: -len(CorpusEvent.__struct_fields__)])
        yield from ("", "```json", encode(example(kind)).decode(), "```")


def _fields(kind: type[Struct], names: Sequence[str] | None = None) -> Iterator[str]:
    """The table of a class's fields, then those of the classes that are inside of it."""
    fields = [one for one in described(kind) if names is None or one.name in names]
    yield from _table(_COLUMNS, [(f"`{one.encode_name}`", _type(one), _meaning(one)) for one in fields])
    for inner in [part.cls for one in fields for part in _parts(one.type) if isinstance(part, inspect.StructType)]:
        yield from ("", f"`{inner.__name__}`: {_paragraphs(inner)[0]}", "")
        yield from _fields(inner)


def described(kind: type[Struct]) -> tuple[inspect.Field, ...]:
    """Returns what the annotations of a class say about its fields."""
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)  # noqa: S101 - what a Struct is
    return found.fields


def description(field: inspect.Field) -> str:
    """Returns what a field's ``Meta`` says that it means; "" if it says nothing."""
    return str(_said(field.type, "description") or "")


def units(type: inspect.Type) -> tuple[str, ...]:
    """Returns the units that are given for the numbers in a type."""
    found = [part.extra["unit"] for part in _parts(type) if isinstance(part, inspect.Metadata) and part.extra]
    return tuple(dict.fromkeys(found))


def has_number(type: inspect.Type) -> bool:
    """Whether a value of the type can be a number, or can have numbers in it that the type tells of."""
    return any(isinstance(part, inspect.IntType | inspect.FloatType) for part in _parts(type))


def example(kind: type[CorpusEvent]) -> CorpusEvent:
    """Returns an event with the first example of each of its own fields, and ``at``.

    A field without an example is left out if it may be. Raises ``msgspec.ValidationError`` for an example that the
    field cannot have.
    """
    own = kind.__struct_fields__[: -len(CorpusEvent.__struct_fields__)]
    given: dict[str, Any] = {}
    for one in described(kind):
        if one.name in own or one.name == "at":
            examples = _said(one.type, "examples")
            if examples:
                given[one.encode_name] = examples[0]
            elif one.required:
                given[one.encode_name] = _any_value(one.type)
    return msgspec.convert(given, kind)


# --- one field ------------------------------------------------------------------------------------------


def _said(type: inspect.Type, what: str) -> Any:
    """What the outermost ``Meta`` that says it says; an alternative to None counts as the field itself."""
    if isinstance(type, inspect.Metadata):
        found = (type.extra_json_schema or {}).get(what)
        return found if found is not None else _said(type.type, what)
    if isinstance(type, inspect.UnionType):
        return next((found for part in type.types if (found := _said(part, what)) is not None), None)
    return None


def _parts(type: inspect.Type) -> Iterator[inspect.Type]:
    """A type and the types that it is made of; a class with fields of its own is one part."""
    yield type
    inner: Sequence[inspect.Type] = ()
    match type:
        case inspect.Metadata():
            inner = (type.type,)
        case inspect.UnionType():
            inner = type.types
        case inspect.DictType():
            inner = (type.key_type, type.value_type)
        case inspect.CollectionType():
            inner = (type.item_type,)
    for part in inner:
        yield from _parts(part)


def _type(field: inspect.Field) -> str:
    return _words(field.type) + ("" if field.required else ", optional")


def _words(type: inspect.Type) -> str:
    """A type in words."""
    match type:
        case inspect.Metadata():
            return _words(type.type)
        case inspect.UnionType():
            return " or ".join(_words(part) for part in type.types if not isinstance(part, inspect.NoneType))
        case inspect.IntType() | inspect.FloatType():
            least, most = (None if limit is None else f"{limit:g}" for limit in (type.ge, type.le))
            name = "integer" if isinstance(type, inspect.IntType) else "number"
            if least is not None and type.le is not None and type.le <= 100:
                return f"{name}, {least} to {most}"
            return name if least is None else f"{name} ≥ {least}"
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.DictType():
            return "object"
        case inspect.CollectionType():
            return f"list of {_words(type.item_type)}"
        case inspect.StructType():
            return f"`{type.cls.__name__}`"
    return "anything"


def _meaning(field: inspect.Field) -> str:
    told = units(field.type)
    return description(field) + (f" (unit: {', '.join(told)})" if told else "")


def _any_value(type: inspect.Type) -> Any:
    """Some value for a field without an example."""
    match type:
        case inspect.Metadata():
            return _any_value(type.type)
        case inspect.UnionType():
            return _any_value(type.types[0])
        case inspect.IntType() | inspect.FloatType():
            return type.ge if type.ge is not None else 1
        case inspect.StrType():
            return "…"
        case inspect.BoolType():
            return True
        case inspect.CollectionType():
            return []
    return {}


# --- Markdown -------------------------------------------------------------------------------------------


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _paragraphs(kind: type[Struct]) -> list[str]:
    """The paragraphs of a class's docstring, each on one line."""
    text = (kind.__doc__ or "").replace("``", "`")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _emitter(kind: type[CorpusEvent]) -> str:
    return "host adapters" if kind.region == "host" else kind.region


def _link(name: str) -> str:
    return f"[`{name}`](#{name.replace('.', '').lower()})"


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode())
