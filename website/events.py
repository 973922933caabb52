"""The reference page of all events, ``docs/events.md``, built from their classes.

``python -m website.events > docs/events.md`` writes it. A test fails when the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from callosum.corpus.events import CATALOGUE, CorpusEvent, encode

HEAD: Final = """\
# Events

Generated from the classes in `callosum/corpus/events.py` by `python -m website.events > docs/events.md`. Change
the classes, not this page.

An event has a dotted name and a payload: a JSON object in camelCase. In Python it is an object of the event's class,
with the same fields in snake_case (`toolName` is `tool_name`). An optional field is absent if it is unknown.

## Subscribe

```python
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ToolCompleted

corpus = Corpus()
off = corpus.on(ToolCompleted, lambda event: print(event.name, event.duration))
corpus.on("safety.*", lambda type, event: print(type, event.tool_name))
corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0))
off()
```

`on` takes a class, a dotted name, or a pattern (`tool.*`, or `*` for all). A handler for a pattern is called with the
dotted name and the event, any other handler with the event. `on` returns the function that unsubscribes; without a
handler it is a decorator. A type checker rejects a wrong payload.

`emit` also takes the dotted name and the payload as JSON represents it. A wrong name or payload raises `ConfigError`
with the field:

```python
corpus.emit("tool.called", {"name": "shell_exec", "args": {"command": "ls -la"}, "taskId": "TASK-42"})
```

Outside the process, `callosum events --follow 'safety.*'` prints events as they arrive, and a server streams them with
`GET /events?types=safety.*,tool.called`. The stream consists of server-sent events: the dotted name is the `event`, the
payload is the `data`, and a client that sends `Last-Event-ID` continues where it stopped. If a client is too slow, or
returns after the server has discarded some events, it gets `stream.dropped` in their place with their `count`, and with
`"atLeast": true` if there may be more. Decisions (`safety.*`) are never dropped. Events that a host may report are sent
to `POST /events`, with the name under `type` beside the fields of the payload.

## Add an event

Write one class in `callosum/corpus/events.py`:

```python
class WindowOpened(CorpusEvent, frozen=True):
    \"\"\"A window was opened.\"\"\"

    dotted: ClassVar[str] = "window.opened"
    region: ClassVar[str] = "Hypothalamus"

    side: Annotated[str, Meta(description="left or right", examples=["left"])]
    open_for: Annotated[Milliseconds, Meta(description="how long it has been open", examples=[310.5])]
```

`dotted` is the event's name and `region` its emitter. `remote: ClassVar[bool] = True` lets hosts report it. The
`description` of a field says what it means; the type of a number names its unit. From then on the event can be
emitted, is logged and streamed, and appears on this page when the page is generated again.

## The daily log

The log is `brain/corpus/YYYY-MM-DD.log.md` in the state folder: one file a day in local time, one line an event.

```
## 2026-05-16

09:15:04 | tool.called | {"name":"github_prs","args":{"state":"open"},"taskId":"TASK-89","instance":"mira"}
09:15:06 | tool.completed | {"name":"github_prs","output":"3 open","duration":1204.0,"instance":"mira"}
```

The payload has no `at`, because the time begins the line, and no secrets. The pieces of a streamed answer
(`llm.token`) are joined into one line. Lines are written in batches every two seconds and when a process ends. Files
older than seven days are removed.

## All events
"""

_COLUMNS: Final = ("field", "type", "meaning and unit")


def page() -> str:
    """Return the page as Markdown. Events are grouped by the first word of their names, in the order of definition."""
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
            "## Common fields",
            "",
            "Every event carries these fields, as far as they are known.",
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
        reporting = "Hosts may report it." if kind.remote else "Hosts cannot report it."
        yield from (f"`{kind.__name__}`, emitted by {_emitter(kind)}. {reporting}", "")
        yield from _fields(kind, kind.__struct_fields__[: -len(CorpusEvent.__struct_fields__)])
        yield from ("", "```json", encode(example(kind)).decode(), "```")


def _fields(kind: type[Struct], names: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the table of a class's fields, then the tables of the classes inside it."""
    fields = [field for field in described(kind) if names is None or field.name in names]
    yield from _table(_COLUMNS, [(f"`{field.encode_name}`", _type(field), _meaning(field)) for field in fields])
    for inner in [part.cls for field in fields for part in _parts(field.type) if isinstance(part, inspect.StructType)]:
        yield from ("", f"`{inner.__name__}`: {_paragraphs(inner)[0]}", "")
        yield from _fields(inner)


def described(kind: type[Struct]) -> tuple[inspect.Field, ...]:
    """Return what the annotations of a class say about its fields."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - true for every Struct
    return info.fields


def description(field: inspect.Field) -> str:
    """Return the description in a field's ``Meta``; "" if it has none."""
    return str(_said(field.type, "description") or "")


def units(type: inspect.Type) -> tuple[str, ...]:
    """Return the units of the numbers in a type."""
    names = [part.extra["unit"] for part in _parts(type) if isinstance(part, inspect.Metadata) and part.extra]
    return tuple(dict.fromkeys(names))


def has_number(type: inspect.Type) -> bool:
    """Return True if a value of the type can be or contain a number."""
    return any(isinstance(part, inspect.IntType | inspect.FloatType) for part in _parts(type))


def example(kind: type[CorpusEvent]) -> CorpusEvent:
    """Return an event with the first example of each of its own fields, and ``at``.

    An optional field without an example is left out. Raises ``msgspec.ValidationError`` for an example that does not
    fit its field.
    """
    own = kind.__struct_fields__[: -len(CorpusEvent.__struct_fields__)]
    given: dict[str, Any] = {}
    for field in described(kind):
        if field.name in own or field.name == "at":
            examples = _said(field.type, "examples")
            if examples:
                given[field.encode_name] = examples[0]
            elif field.required:
                given[field.encode_name] = _any_value(field.type)
    return msgspec.convert(given, kind)


# --- one field ------------------------------------------------------------------------------------------


def _said(type: inspect.Type, property_name: str) -> Any:
    """Return a property of the outermost ``Meta`` that has it; an alternative to None counts as the field itself."""
    if isinstance(type, inspect.Metadata):
        value = (type.extra_json_schema or {}).get(property_name)
        return value if value is not None else _said(type.type, property_name)
    if isinstance(type, inspect.UnionType):
        return next((value for part in type.types if (value := _said(part, property_name)) is not None), None)
    return None


def _parts(type: inspect.Type) -> Iterator[inspect.Type]:
    """Yield a type and the types it is made of; a class with fields of its own is one part."""
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
    """Return a type in words."""
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
    field_units = units(field.type)
    return description(field) + (f" (unit: {', '.join(field_units)})" if field_units else "")


def _any_value(type: inspect.Type) -> Any:
    """Return some value for a field without an example."""
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
    """Return the paragraphs of a class's docstring, each on one line."""
    text = (kind.__doc__ or "").replace("``", "`")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _emitter(kind: type[CorpusEvent]) -> str:
    return "host adapters" if kind.region == "host" else kind.region


def _link(name: str) -> str:
    return f"[`{name}`](#{name.replace('.', '').lower()})"


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode())
