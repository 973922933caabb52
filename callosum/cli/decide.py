"""``callosum explain``: show what a call would get, and why. Nothing is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from callosum.cli import show
from callosum.cli.options import Config, Json, Namespace, State, exists, flag, option, rulebook_of, settings_of
from callosum.errors import ConfigError
from callosum.model import Call, Classification, Decision

if TYPE_CHECKING:
    from callosum.settings import Settings


def explain(  # noqa: PLR0917  typer names them all
    tool: Annotated[
        str | None,
        typer.Argument(metavar="[TOOL]", help="Name of the tool, or a whole call as JSON.", show_default=False),
    ] = None,
    params: Annotated[
        str | None, typer.Argument(metavar="[PARAMS]", help="Params as a JSON object.", show_default=False)
    ] = None,
    param: Annotated[
        list[str] | None, option("--param -p", "NAME=VALUE", "One param; a value that is valid JSON is read as JSON.")
    ] = None,
    instance: Annotated[str | None, option("--instance", "NAME", "Instance that would make the call.")] = None,
    session: Annotated[str | None, option("--session", "NAME", "Session that would make the call.")] = None,
    cwd: Annotated[str | None, option("--cwd", "DIR", "Working folder of the call.")] = None,
    pause: Annotated[
        bool, flag("--pause", "Ask as installed hosts do: a warning pauses the call until it is repeated.")
    ] = False,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show which rule, tier, keys and verdict a call would get now, and why. Nothing is recorded."""
    from callosum.gate import LocalGate
    from callosum.stores.memory import MemoryStore

    settings = settings_of(state, namespace, config, instance=instance)
    if not tool:
        raise ConfigError('expected a tool, as in: callosum explain message \'{"action": "send"}\'', at="TOOL")
    call = _call(tool, params, param or [], settings, session, cwd)
    if pause:
        call = replace(call, pause=True)
    there = exists(settings)
    with LocalGate(
        settings=settings,
        store=None if there else MemoryStore(),
        rules=None if there else rulebook_of(settings),
    ) as gate:
        _show(*gate.explain(call), call, json=json)


def _call(
    tool: str, params: str | None, pairs: list[str], settings: Settings, session: str | None, cwd: str | None
) -> Call:

    from callosum.wire import Intercept, encode, read

    name = settings.instance or "explain"
    if tool.lstrip().startswith("{"):
        if params:
            raise ConfigError("a whole call has its params inside", at="PARAMS")
        whole = {"instance": name, **_object(tool, "TOOL")}
        call: Call = read(msgspec.json.Decoder(Intercept), encode(whole))
    else:
        call = Call(name, tool, _object(params, "PARAMS") if params else {})
    if pairs:
        call = replace(call, params={**call.params, **dict(map(_pair, pairs))})
    return replace(call, session=session or call.session, cwd=cwd or call.cwd, namespace=settings.namespace, wait=0)


def _object(text: str, at: str) -> dict[str, Any]:

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ConfigError(f"expected a JSON object: {fault}", at=at) from None


def _pair(text: str) -> tuple[str, Any]:

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"expected NAME=VALUE, not {text!r:.60}", at="--param")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return name, value


_RISKS = ("no risk", "low risk", "medium risk", "high risk", "critical")
_EFFECTS = {"read": "it only looks", "write": "it changes something"}


def _show(found: Classification, decision: Decision, call: Call, *, json: bool) -> None:

    if json:
        classification = {
            "tier": int(found.tier),
            "effect": found.effect,
            "keys": [{"key": key.name, "mode": key.mode} for key in found.keys],
            "rule": found.rule,
            "why": found.why,
        }
        show.json({**classification, "gap": found.gap, "decision": msgspec.to_builtins(decision)})
        return
    from rich.table import Table
    from rich.text import Text

    keys = Text("\n").join(
        Text.assemble(show.cell(key.name, "bold", 200), (f"  {key.mode}", "dim")) for key in found.keys
    )
    if not found.keys:
        keys = Text("none could be derived" if found.gap else "none", style="yellow" if found.gap else "dim")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("call", Text.assemble(show.cell(call.tool, "bold"), ("  by ", "dim"), show.cell(call.actor)))
    facts.add_row(
        "tier", Text.assemble(show.tier(found.tier), (f"  {_RISKS[found.tier]}, {_EFFECTS[found.effect]}", "dim"))
    )
    facts.add_row("keys", keys)
    facts.add_row("rule", show.cell(found.rule or "none names this tool: it is judged by what the call shows"))
    facts.add_row("why", Text("\n").join(show.cell(reason, limit=200) for reason in found.why))
    facts.add_row(
        "verdict",
        Text.assemble(
            show.verdict(decision.verdict), ("  it would run" if decision.proceed else "  it would not run", "dim")
        ),
    )
    if decision.warning:
        facts.add_row("told", show.cell(decision.warning, limit=2000))
    show.put(facts)
