"""``callosum watch``: show sessions, pauses and what waits for a person, live; answer with y and n."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from callosum.characters import escaped
from callosum.cli import show
from callosum.cli.options import Config, Json, Namespace, State, flag, open_gate, option, settings_of
from callosum.cli.person import require_person
from callosum.cli.text import clean
from callosum.cli.times import clock
from callosum.errors import NotAPerson
from callosum.model import Verdict

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from callosum.cli.notify import ApprovalNotifier
    from callosum.cli.watch_state import WatchState
    from callosum.gate import LocalGate

_ROWS = 12


def watch(
    notify: Annotated[
        str | None,
        option(
            "--notify",
            "CMD",
            "Run for each new question or block, without a shell; gets JSON on its input and CALLOSUM_CALL_*.",
        ),
    ] = None,
    once: Annotated[bool, flag("--once", "Show it once and exit.")] = False,
    every: Annotated[float, option("--every", "SECONDS", "Seconds between two updates.", min=0.05, max=60)] = 0.5,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Watch the sessions live; y approves and n refuses what waits for a person.

    Without a terminal, or with --json, each new question or block is one line.
    """
    from callosum.cli.notify import ApprovalNotifier
    from callosum.cli.watch_state import WatchState

    settings = settings_of(state, namespace, config, notify=notify)
    complaints: list[str] = []
    notifier = ApprovalNotifier(settings.notify, complaints.append)
    with open_gate(settings, create=not once) as gate:
        scene = WatchState(gate, settings.namespace)
        try:
            if once:
                scene.update()
                if json:
                    show.json([waiting.facts() for waiting in scene.waiting.values()])
                else:
                    show.put(*_view(scene, 0, "", None).renderables)
            elif json or not sys.stdout.isatty():
                _lines(scene, notifier, complaints, every, json=json)
            else:
                _live(gate, scene, notifier, complaints, settings.namespace, every)
        finally:
            notifier.close()


def _lines(scene: WatchState, notifier: ApprovalNotifier, complaints: list[str], every: float, *, json: bool) -> None:

    scene.update()
    if json:
        show.json({"event": "watching"})
    while True:
        for waiting in scene.update():
            notifier.send(waiting.facts())
            if json:
                show.json(waiting.facts())
            else:
                key = f" on {escaped(waiting.key)}" if waiting.key else ""
                word = "asks for" if waiting.facts()["event"] == "approval" else "was blocked:"
                who, what = clean(waiting.instance), clean(waiting.tool)
                show.line(f"{waiting.short}  {waiting.id}  {who} {word} {what}{key} (tier {waiting.tier})")
                sys.stdout.flush()
        while complaints:
            sys.stderr.write(f"callosum: {complaints.pop(0)}\n")
        time.sleep(every)


def _live(
    gate: LocalGate, scene: WatchState, notifier: ApprovalNotifier, complaints: list[str], namespace: str, every: float
) -> None:
    from rich.live import Live

    from callosum.cli.approvals import answer
    from callosum.cli.keyboard import Keyboard

    refused = None
    try:
        require_person(gate.store, "answer here")
    except NotAPerson as refusal:
        refused = str(refusal)
    chosen: int | None = 0
    id, said = 0, ""
    with Keyboard() as keys, Live(console=show.console(), screen=True, auto_refresh=False) as live:
        while True:
            for waiting in scene.update():
                notifier.send(waiting.facts())
            if complaints:
                said = complaints.pop(0)
            ids = list(scene.waiting)
            # the choice stays on its call when others come and go, so that a key press never answers another call
            if id in scene.waiting:
                chosen = ids.index(id)
            elif id and len(ids) > 0:
                chosen = None  # it is gone, so the next call must be chosen before it is answered
            else:
                chosen = 0 if ids else None
            live.update(_view(scene, chosen, said, refused), refresh=True)
            key = keys.read(every)
            if key in ("q", "\x03", "\x04"):
                return
            step = {"j": 1, "down": 1, "k": -1, "up": -1}.get(key, 0)
            if step:
                chosen = 0 if chosen is None else max(0, min(chosen + step, len(ids) - 1))
            id = ids[chosen] if ids and chosen is not None else id if ids else 0
            if key in ("y", "n") and ids and chosen is None:
                said = "choose one first, with j or k"
            elif key in ("y", "n") and ids:
                one = scene.waiting[id]
                try:
                    report = answer(gate, str(id), namespace, agrees=key == "y", what="answer here", channel="watch")
                except NotAPerson as refusal:
                    said = str(refusal)
                    continue
                word = ("approved" if key == "y" else "refused") if report.ok else f"not changed, {report.note}:"
                said = f"{word} {clean(one.tool)} of {clean(one.instance)}"


def _view(scene: WatchState, chosen: int | None, said: str, refused: str | None) -> Group:
    from rich.console import Group
    from rich.text import Text

    from callosum.cli.status import holdings

    now = time.time()
    parts: list[RenderableType] = []
    head = Text.assemble(("Callosum", "bold"), (f"  {clock(now)}", "dim"))
    if scene.status.observing_until is not None:
        head.append(f"  observing only until {clock(scene.status.observing_until)}", "yellow")
    parts += [head, Text()]
    items = list(scene.waiting.values())
    if items:
        first = max(0, min((chosen or 0) - _ROWS // 2, len(items) - _ROWS))
        rows: list[Sequence[object]] = []
        for at, one in list(enumerate(items))[first : first + _ROWS]:
            style, mark = ("bold", "▶") if at == chosen else ("", " ")
            tool = show.cell(one.tool, style, 40).append(f" ({one.verdict})" * (one.verdict is not Verdict.ASK), "red")
            names = [show.cell(name, style, 40) for name in (one.short, one.id, one.instance)]
            rows.append((show.cell(mark, "cyan"), *names[:2], one.at, names[2], tool, one.tier, one.key))
        note = f"{len(items)} in all" if len(items) > _ROWS else ""
        parts.append(
            show.table("For you", ("", "<short", "<id", "<since", "session", "tool", ">tier", "key"), rows, note=note)
        )
        if chosen is not None:
            # what the call would do, because that is what a person approves
            params = (
                msgspec.json.encode(items[chosen].params).decode() if items[chosen].params else "no params are known"
            )
            parts += [show.cell(params, limit=600), show.cell(items[chosen].warning, "dim", 400), Text()]
    else:
        parts += [Text("Nothing waits for you.", style="dim"), Text()]
    sessions = list(scene.sessions.values())[::-1][:_ROWS]
    if sessions:
        parts.append(
            show.table(
                "Sessions",
                ("session:40", "<ago", ">calls", "tool:40", "<answer", "key", "what:60"),
                [(one.name, one.last, one.calls, one.tool, one.verdict, one.key, one.summary) for one in sessions],
            )
        )
    if scene.status.unknown:
        parts.append(holdings("Outcome unknown", scene.status.unknown[:_ROWS]))
    if scene.status.locks:
        parts.append(holdings("Leases", scene.status.locks[:_ROWS]))
    if said:
        parts.append(show.cell(said, "cyan", 300))
    if refused is None:
        parts.append(Text("y approve   n refuse   j/k choose   q leave", style="dim"))
    else:
        parts.append(show.cell(f"Answers are off: {refused}.  q leaves", "yellow", 300))
    return Group(*parts)
