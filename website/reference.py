"""Generate the reference pages from the code: Python API, HTTP, command and rule fields."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import typer
from typer.main import get_command

import callosum
from callosum.cli.app import app_for
from callosum.server.openapi import document

_JSON: Final = "application/json"
_TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "Gates and clients": ("LocalGate", "Gate", "CallosumClient", "AsyncCallosumClient", "AsyncGate", "Host"),
    "Guards": ("guard", "gated", "confirming"),
    "Calls and decisions": (
        "Call",
        "Decision",
        "Verdict",
        "Tier",
        "Conflict",
        "Kind",
        "Classification",
        "Key",
        "Mode",
        "Commits",
        "Observation",
        "RuleSet",
    ),
    "Reports and records": ("Report", "Outcome", "Action", "State", "Entry", "Lease", "LockResult", "Status"),
}


def write_reference(target: Path) -> None:
    """Write every generated page into the folder ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    for name, page in (
        ("python.md", python_page()),
        ("http.md", http_page(document())),
        ("command.md", command_page()),
        ("rule-fields.md", rule_fields_page(rule_schema())),
    ):
        (target / name).write_text(page, "utf-8")


def rule_schema() -> dict[str, Any]:
    """Return the JSON schema of ``tiers.json``, as the package ships it."""
    schema: dict[str, Any] = json.loads((files("callosum.rules") / "tiers.schema.json").read_text("utf-8"))
    return schema


def topics() -> dict[str, list[str]]:
    """Return the public names by topic; every name of ``callosum`` is in one."""
    named = {name for names in _TOPICS.values() for name in names}
    errors = [name for name in callosum.__all__ if _is_error(name)]
    other = [name for name in callosum.__all__ if name not in named and name not in errors]
    shown = {topic: list(names) for topic, names in _TOPICS.items()}
    return {**shown, "Errors": errors, **({"Other": other} if other else {})}


def _is_error(name: str) -> bool:
    value = getattr(callosum, name)
    return inspect.isclass(value) and issubclass(value, Exception)


def python_page() -> str:
    """Return the page of the Python API: one directive of mkdocstrings for each public name."""
    lines = ["# Python API", "", "All names are imported from `callosum`.", ""]
    for topic, names in topics().items():
        lines += [f"## {topic}", ""]
        for name in names:
            lines += [f"::: {getattr(callosum, name).__module__}.{name}", ""]
    return "\n".join(lines)


def http_page(described: Mapping[str, Any]) -> str:
    """Return the page of the HTTP interface, from its OpenAPI document."""
    return "\n".join(_http_lines(described)) + "\n"


def _http_lines(described: Mapping[str, Any]) -> Iterator[str]:
    schemas = described["components"]["schemas"]
    yield "# HTTP interface"
    yield ""
    yield (
        "A server that runs with `callosum serve` describes itself at `/docs` and `/openapi.json`. This page is made "
        "from the same description. [Server](../server.md) has tokens, limits and examples of whole exchanges."
    )
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from ("", f"## `{method.upper()} {path}`", "")
            yield _one_line(operation.get("description") or operation["summary"])
            yield from _fields(operation, schemas)
            yield from _example(operation, schemas, method, path)
            yield from _response(operation, schemas)
    yield from ("", "## Objects")
    for name, schema in sorted(schemas.items()):
        if schema.get("properties"):
            yield from ("", f"### {name}", "", "| field | type | meaning |", "|---|---|---|")
            for field, details in schema["properties"].items():
                yield _row(f"`{field}`", type_of(details), details.get("description", ""))


def _fields(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (parameter["name"], parameter["in"], {**parameter["schema"], **parameter}, parameter.get("required", False))
        for parameter in operation.get("parameters", ())
    ]
    body = _resolve(operation.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("schema", {}), schemas)
    required = body.get("required", ())
    rows += [(name, "body", field, name in required) for name, field in body.get("properties", {}).items()]
    if rows:
        yield from ("", "| field | in | type | required | meaning |", "|---|---|---|---|---|")
        for name, where, field, needed in rows:
            yield _row(f"`{name}`", where, type_of(field), "yes" if needed else "", field.get("description", ""))


def _example(operation: Mapping[str, Any], schemas: Mapping[str, Any], method: str, path: str) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {}).get(_JSON, {})
    example = content.get("example", _resolve(content.get("schema", {}), schemas).get("example"))
    address = f"http://127.0.0.1:7700{path}"
    if example is not None:
        sent = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
        flag = "" if method == "post" else f"-X {method.upper()} "
        yield from (
            "",
            "```sh",
            f"curl {flag}{address} -H 'Content-Type: application/json' \\",
            f"  -d '{sent}'",
            "```",
        )
    elif method == "get":
        yield from ("", "```sh", f"curl {address}", "```")


def _response(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    content = operation["responses"].get("200", {}).get("content", {})
    for kind, details in content.items():
        name = details.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if name:
            linked = f"[{name}](#{name.lower()})" if schemas[name].get("properties") else name
            yield from ("", f"Returns {linked} as `{kind}`.")
        else:
            yield from ("", f"Returns `{kind}`.")


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in a few words, such as "integer, 1 to 500"."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(type_of(option) for option in schema[several]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if kind == "array" and schema.get("items"):
        words = f"array of {type_of(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{words}, {low} to {high}" if low is not None and high is not None else words


def command_page() -> str:
    """Return the page of the command, from the typer application: each command with usage, arguments and options."""
    command = get_command(app_for(()))
    context = typer.Context(command, info_name="callosum")
    return "\n".join(_command_lines(command, context, 1)) + "\n"


def _command_lines(command: Any, context: typer.Context, level: int) -> Iterator[str]:
    if level == 1:
        yield from ("# Commands", "", "[The command](../cli.md) explains how to use them.", "")
    else:
        yield from (f"{'#' * min(level, 4)} `{context.command_path}`", "")
    yield from (_plain(inspect.cleandoc(command.help or "")), "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```console", f"$ {context.command_path} {usage}".rstrip(), "```", "")
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if records:
        yield from ("| option | meaning |", "|---|---|")
        yield from (_row(f"`{name}`", _plain(said)) for name, said in records)
        yield ""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        if not child.hidden:
            yield from _command_lines(child, typer.Context(child, info_name=name, parent=context), level + 1)


def rule_fields_page(schema: Mapping[str, Any]) -> str:
    """Return the page of the fields of ``tiers.json``, from its JSON schema."""
    lines = [
        "# Rule fields",
        "",
        "Every field that `tiers.json` takes. [Rules](../rules.md) explains them with examples.",
        "",
        "## The file",
        *_schema_table(schema),
    ]
    for name, part in schema.get("$defs", schema.get("definitions", {})).items():
        if part.get("properties"):
            lines += ["", f"## `{name}`", "", _one_line(part.get("description", "")), *_schema_table(part)]
    return "\n".join(lines) + "\n"


def _schema_table(schema: Mapping[str, Any]) -> list[str]:
    rows = [
        _row(f"`{name}`", type_of(field), field.get("description", "")) for name, field in schema["properties"].items()
    ]
    return ["", "| field | type | meaning |", "|---|---|---|", *rows]


def _row(*cells: str) -> str:
    return f"| {' | '.join(_one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("<", "&lt;")


def _plain(text: str) -> str:
    """Return help text without the markup that rich and click read."""
    plain = text.replace("\b", "").replace("\f", "").replace("\\[", "[").replace("``", "`")
    return plain.replace("<", "&lt;")
