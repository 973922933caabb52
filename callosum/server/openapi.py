"""The OpenAPI document and the page for people, both made from ``ENDPOINTS`` and the structs."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from pkgutil import get_data
from typing import Any, Final

import msgspec

from callosum import __version__, deadline, wire
from callosum.characters import HIDDEN
from callosum.corpus import events
from callosum.gate.check import MAX_ATTEMPT, MAX_FOLDER, MAX_PLACES, MAX_TTL, NOT_IN_KEYS
from callosum.hosts.adapters import ADAPTERS
from callosum.model import MAX_KEY, MAX_NAME, Mode
from callosum.operations import GateOperation
from callosum.rules.commitments import SIDE
from callosum.server.app import ENDPOINTS

FIELDS: Final[Mapping[str, str]] = msgspec.json.decode(get_data(__package__, "fields.json") or b"")
"""Description by the field's name. A struct that describes a field itself keeps its own description."""
_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_ID_MOST: Final = 2**63 - 1
_BROKEN: Final = r"\ud800-\udfff"


def _all_of(unusable: str) -> str:
    # JSON cannot hold broken Unicode, and not every regular expression dialect can name it.
    return f"^[^{unusable.replace(_BROKEN, '')}]+$"


# Constraints that the structs do not express because only the gate checks them: by field name, in requests only.
_NAMES: Final = "instance tool callId dispatch session run parent continues origin namespace cause".split()
_NAME: Final = {"$ref": _REF.format(name="Name")}
_KEY: Final = {"$ref": _REF.format(name="ContextKey")}
_WORDS: Final = {"type": "string", "maxLength": 4096}
_SECONDS: Final = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TTL}
_ID: Final = {"type": "integer", "minimum": 1, "maximum": _ID_MOST}
_TEXT: Final = {"type": "string"}
_FOLDER: Final = {"type": "string", "minLength": 1, "maxLength": MAX_FOLDER, "pattern": _all_of(HIDDEN)}
_PLACES: Final = {
    "type": "object",
    "maxProperties": MAX_PLACES,
    "propertyNames": {"minLength": 1, "maxLength": MAX_FOLDER},
}
_HOMES: Final = {**_PLACES, "additionalProperties": _FOLDER}
_WORKTREES: Final = {
    **_PLACES,
    "additionalProperties": {"anyOf": [{"$ref": _REF.format(name="Worktree")}, {"type": "null"}]},
}
_ANY_KEY: Final = {"anyOf": [_KEY, {"const": ""}]}
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(_NAMES, _NAME),
    "contextKey": _KEY,
    "id": _ID,
    "tier": {"type": "integer", "minimum": 0, "maximum": 4},
    "ttl": _SECONDS,
    "timeout": _SECONDS,
    "wait": {"type": "number", "minimum": 0, "maximum": wire.MAX_WAIT},
    "limit": {"type": "integer", "minimum": 1, "maximum": wire.MAX_PAGE},
    "by": {"type": "string", "maxLength": MAX_NAME},
    "deadline": {"type": "string", "maxLength": deadline.LONGEST, "pattern": deadline.PATTERN},
    "timeoutMs": {"type": "integer", "minimum": 1, "maximum": deadline.MAX_TIMEOUT_MS},
    **dict.fromkeys(("note", "channel"), _WORDS),
    "cursor": {"type": "string", "description": "Opaque: the value that the previous page returned."},
}
# Fields for which other constraints hold in one struct. An empty key means no key, like an answer's null.
_UNIX: Final = {"type": "number", "minimum": 0, "exclusiveMaximum": 2**33}
_PLAIN: Final = {"type": "string", "maxLength": MAX_NAME, "pattern": r"^[^\u0000]*$"}
_WORDS_SHOWN: Final = {"type": "string", "maxLength": MAX_NAME}
_ATTEMPT: Final = {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPT}
_OTHERS: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    **dict.fromkeys((("Call", "taskId"), ("Intercept", "taskId")), _NAME),
    **dict.fromkeys((("Call", "attempt"), ("Intercept", "attempt")), _ATTEMPT),
    **dict.fromkeys((("Call", "home"), ("Intercept", "home")), _FOLDER),
    **dict.fromkeys((("Call", "homes"), ("Intercept", "homes")), _HOMES),
    **dict.fromkeys((("Call", "worktrees"), ("Intercept", "worktrees")), _WORKTREES),
    ("Worktree", "root"): _FOLDER,
    ("Worktree", "repository"): _FOLDER,
    ("Commits", "side"): {
        "type": "string",
        "pattern": f"^(?:{SIDE})$",
        "description": "A verb, such as accept, decline, book or cancel, or a word after + or -.",
    },
    ("Commits", "what"): _WORDS_SHOWN,
    ("Commits", "to"): _WORDS_SHOWN,
    ("Commits", "until"): {**_UNIX, "type": ["number", "null"]},
    ("Complete", "contextKey"): _ANY_KEY,
    ("StatusQuery", "contextKey"): _ANY_KEY,
    ("LateCall", "started"): _UNIX,
    ("LateCall", "ended"): _UNIX,
    ("LateBatch", "now"): _UNIX,
    ("LateClassification", "keys"): {
        "type": "array",
        "maxItems": wire.MAX_LATE_KEYS,
        "items": {
            "type": "array",
            "prefixItems": [{**_PLAIN, "minLength": 1, "maxLength": MAX_KEY}, {"enum": [mode.value for mode in Mode]}],
            "minItems": 1,
        },
    },
    ("LateClassification", "rule"): _PLAIN,
    ("LateClassification", "effect"): _PLAIN,
    # A host's names may be longer than the gate's and hold hidden characters: they are cut and escaped.
    ("HookEvent", "hook_event_name"): {"type": "string", "minLength": 1},
    ("HookEvent", "session_id"): {"type": "string", "minLength": 1},
    ("StatusQuery", "instance"): _TEXT,
    ("StatusQuery", "session"): _TEXT,
    ("BriefQuery", "key"): {"type": "array", "items": _KEY, "maxItems": wire.MAX_KEYS},
}
_ERRORS: Final = {
    "400": "The request is invalid; `at` names the field.",
    "401": "A token is required, or the one that was sent is unknown.",
    "403": "The token, the host or the origin does not permit this.",
    "404": "The endpoint does not exist.",
    "405": "The endpoint does not support this method.",
    "408": "The request took too long to arrive, or its client no longer waits (`at` is `deadline`): nothing was done.",
    "413": "The request's body is too large.",
    "414": "The request's path and query are too long.",
    "421": "This server does not serve that host name.",
    "431": "The request's head is too large.",
    "503": (
        "The store cannot be written at the moment (`at` is `store`; `id` names a decision that may be in force "
        "nevertheless, and that the client may cancel), the server is overloaded (`load`: "
        "nothing was done), or it is stopping."
    ),
}


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    kinds: list[Any] = [wire.ErrorResponse]
    for endpoint in ENDPOINTS:
        kinds += [kind for kind in (endpoint.body, endpoint.query, endpoint.answer) if kind not in (None, Any)]
    schemas, components = msgspec.json.schema_components(dict.fromkeys(kinds), ref_template=_REF)
    named = dict(zip(dict.fromkeys(kinds), schemas, strict=True))
    asked = {kind.__name__ for e in ENDPOINTS for kind in (e.body, e.query) if kind not in (None, Any)}
    asked |= {"Commits", "LateClassification", "LateCall", "Worktree", "Call"}
    for name, schema in components.items():
        if name in asked:
            _constrain(name, schema)
    components["Name"] = {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME,
        "pattern": _all_of(HIDDEN),
        "description": "A name: no controls, no characters that cannot be seen.",
    }
    components["ContextKey"] = {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_KEY,
        "pattern": _all_of(NOT_IN_KEYS),
        "description": "What an action affects: no controls and no line breaks.",
    }
    for schema in components.values():
        for name, field in schema.get("properties", {}).items():
            if name in FIELDS:
                field.setdefault("description", FIELDS[name])
    components |= _events()
    for schema in components.values():
        if "description" in schema:  # otherwise Markdown takes the indented lines for a code block
            schema["description"] = inspect.cleandoc(schema["description"])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        path = paths.setdefault(endpoint.path, {})
        path[endpoint.method.lower()] = _operation(endpoint, named, components)
    paths["/events"]["get"] = _stream()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Callosum",
            "version": __version__,
            "license": {"name": "MIT"},
            "description": "The gate between an AI agent's tool call and its execution.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _events() -> dict[str, Any]:
    """Return the events that a host may report, each with its ``type``, and ``CorpusEvent`` for any of them."""
    remote = {name: kind for name, kind in sorted(events.CATALOGUE.items()) if kind.remote}
    _, found = msgspec.json.schema_components(remote.values(), ref_template=_REF)
    for name, kind in remote.items():
        schema = found[kind.__name__]
        schema["properties"] = {"type": {"const": name}, **schema["properties"]}
        schema["required"] = ["type", *schema.get("required", ())]
    for name, schema in found.items():
        _constrain(name, schema)
    found["HealthOk"]["properties"]["instance"] = dict(_NAME)  # a host reports itself, so it must name itself
    found["HealthOk"]["required"].append("instance")
    found["CorpusEvent"] = {"anyOf": [{"$ref": _REF.format(name=kind.__name__)} for kind in remote.values()]}
    return found


def _constrain(kind: str, schema: dict[str, Any]) -> None:
    for name, field in schema.get("properties", {}).items():
        rule = _OTHERS.get((kind, name), _FIELDS.get(name))
        if rule is None:
            continue
        kept = {key: field[key] for key in ("default", "description") if key in field}
        nullable = any(one.get("type") == "null" for one in field.get("anyOf", ()))
        fresh = {"anyOf": [*rule.get("anyOf", [rule]), {"type": "null"}]} if nullable else rule
        field.clear()
        field.update(fresh, **kept)
    # ``host`` is a process of this machine, which only a client of this package can state.
    schema.get("properties", {}).pop("host", None)
    if kind == "LateClassification":
        schema["properties"].pop("content")  # hashes made with a key that only a client of this package has


def _operation(endpoint: GateOperation, named: Mapping[Any, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}{''.join(part.title() for part in _parts(endpoint.path))}",
        "summary": endpoint.summary,
        "description": endpoint.description,
        "responses": _responses(endpoint, named),
    }
    parameters = [_of_path(name) for name in [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]]
    if endpoint.query is not None:
        parameters += _of_query(components[endpoint.query.__name__])
    if parameters:
        made["parameters"] = parameters
    if endpoint.body is not None:
        schema = _events_body() if endpoint.body is Any else named[endpoint.body]
        required = endpoint.body is not wire.Release
        content = {_JSON: {"schema": schema, "example": endpoint.example}}
        made["requestBody"] = {"required": required, "content": content}
    if endpoint.approver:
        made["security"] = [{"token": []}]
    return made


def _events_body() -> dict[str, Any]:
    one = {"$ref": _REF.format(name="CorpusEvent")}
    return {"anyOf": [one, {"type": "array", "items": one, "maxItems": wire.MAX_EVENTS}]}


def _responses(endpoint: GateOperation, named: Mapping[Any, Any]) -> dict[str, Any]:
    schema = named[endpoint.answer] if endpoint.answer is not None else {"type": "string"}
    made: dict[str, Any] = {"200": {"description": "Done.", "content": {endpoint.media_type: {"schema": schema}}}}
    return {**made, **_faults(named[wire.ErrorResponse])}


def _faults(fault: Any) -> dict[str, Any]:
    return {status: {"description": text, "content": {_JSON: {"schema": fault}}} for status, text in _ERRORS.items()}


def _stream() -> dict[str, Any]:
    return {
        "operationId": "getEvents",
        "summary": "The stream of events",
        "description": "Server-sent events. `Last-Event-ID` resumes after the event of that id.",
        "parameters": [
            {
                "name": "types",
                "in": "query",
                "schema": {"type": "string", "default": "*"},
                "description": "Dotted names separated by commas, such as `tool.*` or `*`.",
            },
            {"name": "namespace", "in": "query", "schema": dict(_NAME)},
            {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
        ],
        "responses": {
            "200": {
                "description": "Events until either side closes the connection.",
                "content": {"text/event-stream": {"schema": {}}},
            },
            **_faults({"$ref": _REF.format(name="ErrorResponse")}),
        },
    }


def _parts(path: str) -> list[str]:
    return [part.strip("{}") for part in path.split("/") if part]


def _of_path(name: str) -> dict[str, Any]:
    schema = {"id": dict(_ID), "host": {"enum": list(ADAPTERS)}}.get(name, dict(_KEY))
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _of_query(struct: Mapping[str, Any]) -> list[dict[str, Any]]:
    made = []
    for name, field in struct["properties"].items():
        # A query cannot contain null: the parameter is left out instead.
        kept = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
        schema = field if not kept else kept[0] if len(kept) == 1 else {"anyOf": kept}
        required = name in struct.get("required", ())
        one = {"name": name, "in": "query", "required": required, "schema": schema}
        made.append({**one, **({"description": field["description"]} if "description" in field else {})})
    return made


# --- HTML page ---

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "h2{margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}code{background:#f4f4f4;padding:.1em .3em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;"
    "border-bottom:1px solid #eee}b.method{display:inline-block;min-width:4.5rem}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}code{background:#2a2a2a}"
    "h2,td,th{border-color:#333}a{color:#8ab4f8}}"
)


def page(made: Mapping[str, Any]) -> str:
    """Return the document as one HTML page that loads nothing from elsewhere."""
    body = [
        "<h1>Callosum</h1>",
        (
            f"<p>{html.escape(made['info']['description'])} Version {html.escape(made['info']['version'])}. "
            'For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        ),
    ]
    schemas = made["components"]["schemas"]
    for path, ways in made["paths"].items():
        for method, way in ways.items():
            body += _section(method.upper(), path, way, schemas)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Callosum</title><style>{_STYLE}</style>{''.join(body)}</html>"
    )


def _section(method: str, path: str, way: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterable[str]:
    yield f'<h2><b class="method">{method}</b> <code>{html.escape(path)}</code></h2>'
    said, more = way["summary"], way.get("description", "").replace("``", "")
    if len(more) > len(said) + 10:  # otherwise the description only rephrases the summary
        said = f"{said}. {more}"
    yield f"<p>{html.escape(said)}</p>"
    rows = [
        (parameter["name"], parameter["in"], {**parameter["schema"], **parameter}, parameter.get("required", False))
        for parameter in way.get("parameters", ())
    ]
    content = way.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("schema", {})
    schema = _resolved(content, schemas)
    rows += [
        (name, "body", field, name in schema.get("required", ()))
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        yield "<table><tr><th>field</th><th>in</th><th>type</th><th></th><th>what it is</th></tr>"
        for name, place, field, required in rows:
            yield (
                f"<tr><td><code>{html.escape(name)}</code></td><td>{place}</td><td>{html.escape(_type(field))}</td>"
                f"<td>{'required' if required else ''}</td><td>{html.escape(field.get('description', ''))}</td></tr>"
            )
        yield "</table>"
    example = way.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("example")
    if example is not None:
        yield f"<p>For example <code>{html.escape(msgspec.json.encode(example).decode())}</code></p>"
    answer = next(iter(way["responses"]["200"]["content"].values()))["schema"]
    fields = _resolved(answer, schemas).get("properties", {})
    if fields:
        yield f"<p>Answers {', '.join(f'<code>{html.escape(name)}</code>' for name in fields)}.</p>"


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    return str(schema.get("type", "anything"))


@cache
def documents() -> Mapping[str, tuple[str, bytes]]:
    """Return the documents below ``DOCUMENTS`` of the application: path to media type and content.

    Takes a tenth of a second; called once.
    """
    made = document()
    shown = "text/html; charset=utf-8", page(made).encode()
    return {"/openapi.json": (_JSON, msgspec.json.encode(made)), "/docs": shown, "/": shown}
