"""``callosum merges``: list writes that ran merged with another session's changes, and undo them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli import show
from callosum.cli.codes import NO
from callosum.cli.options import InFolder, Json, flag, open_gate, option
from callosum.cli.text import clean
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.merging.merge_store import MergeRecord, MergeStore
    from callosum.settings import Settings

Id = Annotated[int, typer.Argument(metavar="ID", help="Id of the merge, as the session was notified.")]


def merges(settings: InFolder, context: typer.Context, json: Json = False) -> None:
    """List the merges of the last day; as a group, show or undo one."""
    if context.invoked_subcommand is None:
        list_(settings, json=json)
    given = {name: value for name, value in context.params.items() if name in ("state", "config", "json")}
    context.default_map = dict.fromkeys(("list", "show", "undo"), given)


def list_(settings: InFolder, json: Json = False) -> None:
    """List the merges of the last day, newest first."""
    found = _merges(settings).all()
    if json:
        show.json({"merges": [_facts(merged) for merged in found]})
        return
    if not found:
        show.line("Nothing was merged in the last 24 hours.")
        return
    rows = [
        (one.id, one.at, one.session, ", ".join(one.others), one.path, "yes" if one.lost else None) for one in found
    ]
    show.put(show.table("Merges", ("<id", "at", "session", "merged with", "key:200", "overwrote"), rows))


def show_(settings: InFolder, id: Id, json: Json = False) -> None:
    """Show a merge: the whole proposal, and as differences what was merged into it."""
    from difflib import unified_diff

    merged = _of(_merges(settings), id)
    if json:
        texts = {"proposal": merged.proposal, "before": merged.before, "merge": merged.merge}
        show.json({**_facts(merged), **texts})
        return
    show.line(
        f"{clean(merged.session)} wrote {clean(merged.path, 500)}, merged with {clean(', '.join(merged.others))}."
    )
    if merged.lost:
        show.line(clean(merged.lost.partition("\n")[0], 500), "red")
    for title, old in (("what the call proposed", merged.proposal), ("the file as it was", merged.before)):
        lines = unified_diff(old.splitlines(), merged.merge.splitlines(), title, "the merge", lineterm="")
        for line in lines:
            show.line(clean(line, 500), {"+": "green", "-": "red"}.get(line[:1], ""))


def undo(
    settings: InFolder,
    id: Id,
    to: Annotated[
        str, option("--to", "WHICH", "Which text to restore: before (the merge), proposal, or merge.")
    ] = "before",
    force: Annotated[bool, flag("--force", "Restore even if the file has changed since; that change is lost.")] = False,
    json: Json = False,
) -> None:
    """Bring back the file as it was before a merge, what the call proposed, or the merge; only a person can."""
    from callosum.merging.merge_store import WHICH, bring_back

    if to not in WHICH:
        raise ConfigError(f"expected one of {', '.join(WHICH)}, got {to!r:.60}", at="--to")
    merged = _of(_merges(settings), id)
    with open_gate(settings) as gate:
        gate.require_person("undo a merge")
    bring_back(merged, to, force=force)
    show.result(
        {"id": id, "path": merged.path, "to": to},
        f"{clean(merged.path, 500)} holds the text of `{to}` again. Open sessions have not read it.",
        "green",
        json=json,
    )


def _merges(settings: Settings) -> MergeStore:
    from callosum.merging.merge_store import MergeStore
    from callosum.merging.write_merger import MERGES

    return MergeStore(settings.state / MERGES)


def _of(merges: MergeStore, id: int) -> MergeRecord:
    """Return the merge of this id; where there is none, the command ends with a "no"."""
    merged = merges.get(id)
    if merged is not None:
        return merged
    typer.echo("callosum: no merge of this id is kept; they are for 24 hours, and callosum merges lists them", err=True)
    raise typer.Exit(NO)


def _facts(merged: MergeRecord) -> dict[str, object]:
    return {name: getattr(merged, name) for name in "id at session namespace tool path others lost".split()}
