"""``callosum store``: check a store, migrate its tables to this version, copy it into another one."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import unquote

import typer
from msgspec.structs import asdict

from callosum.cli import show
from callosum.cli.codes import code_of
from callosum.cli.options import Config, InFolder, Json, State, flag, settings_of
from callosum.cli.person import require_person
from callosum.cli.text import clean
from callosum.errors import CallosumError, ConfigError
from callosum.person import ACCEPTING, refuse_agents

if TYPE_CHECKING:
    from callosum.settings import Settings
    from callosum.stores.base import StoreCheck
    from callosum.stores.copy import CopyResult, Stamp

_WHERE: Final = "a URL; env:NAME for the one in a variable; file:PATH for the one in a file"
Url = Annotated[
    str | None,
    typer.Argument(
        metavar="[URL]", help=f"Which store: {_WHERE}. By default that of the settings.", show_default=False
    ),
]
_SECRETS: Final = (re.compile(r"://[^/?#]*?:([^/?#]*)@"), re.compile(r"[?&](?:ssl)?password=([^&#]+)"))
_EVERY: Final = 0.2
"""Seconds between two updates of the progress."""


def check(url: Url = None, state: State = None, config: Config = None, json: Json = False) -> bool:
    """Check a store without changing it; exit code 1 if something is wrong, or if there is no store."""
    from callosum.stores import copy as copies
    from callosum.stores.base import different_keys
    from callosum.stores.versions import version_of

    with _unseen(url):
        settings = _settings(url, state, config)
        version = version_of(settings)
        health: StoreCheck | None = None
        stamp: Stamp | None = None
        records: dict[str, int] = {}
        if not version.newer:
            with closing(copies.opened(settings)) as store:
                health, stamp = store.check(), copies.stamp_of(store.engine)
                records = copies.counts(store.engine)
    lacking = "there is no store of Callosum here yet: callosum store migrate makes it"
    if version.found is not None:
        known = f"this Callosum works with {version.known}: callosum store migrate"
        lacking = f"the tables have version {version.found}, {known}"
    problems = list(health.problems) if health is not None else [lacking]
    if health is not None and health.content_keys > 1:
        problems.append(different_keys(health.content_keys))
    if stamp is not None and not stamp.verified:
        problems.append(f"an unfinished copy of {stamp.source}: run callosum store copy again before a gate uses it")
    if json:
        facts = asdict(health) if health is not None else {}
        facts.pop("problems", None)
        found = {"ok": not problems, "version": asdict(version), "health": facts or None, "records": records}
        show.json({**found, "problems": problems})
    else:
        if health is not None:
            _describe(health, records)
        for problem in problems:
            show.line(f"✗ {problem}", "red")
        if not problems:
            show.line("✓ sound", "green")
    return not problems


def migrate(
    url: Url = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only print what would be done.")] = False,
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Create a store's tables, or migrate them to this version, before the new servers start.

    If several processes migrate at once, it happens once. Servers of the
    previous version can continue. A server does the same when it starts; after
    this command it need not, and its database role needs no right to create.
    """
    from callosum.stores.versions import migrate, version_of

    with _unseen(url):
        settings = _settings(url, state, config)
        before = version_of(settings) if dry_run else migrate(settings)
    if json:
        show.json({**asdict(before), "changed": before.newer and not dry_run, "dryRun": dry_run})
        return
    what = "nothing there yet" if before.found is None else f"version {before.found}"
    if not before.newer:
        show.line(f"Nothing to do: the store has {what}, this Callosum works with {before.known}.", "green")
    elif dry_run:
        show.line(f"Would be brought to version {before.known}: {what}.", "yellow")
    else:
        show.line(f"Brought to version {before.known}: there was {what}.", "green")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"The store to copy: {_WHERE}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty store, or an unfinished copy of FROM.")],
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> bool:
    """Copy everything a gate needs, and verify it. Run it again to continue an interrupted copy.

    Exit code 1 if the stores still differ because gates write to FROM: stop
    them and run it again.
    """
    from callosum.stores import copy as copies

    with _unseen(source, target):
        ours = _settings(source, state, config)
        theirs = _settings(target, state, config)
        with closing(copies.opened(ours)) as from_, closing(copies.opened(theirs, create=True)) as to:
            progress = _Progress()
            try:
                copied = copies.copy(from_.engine, to.engine, progress)
            finally:
                progress.end()
            names = from_.engine.place, to.engine.place
            if copied.verified:
                to.accept(proven=True)
                to.prove()  # puts everything before on disk
    segments = sum(1 for _ in (ours.state / "journal").glob("*.jsonl.gz"))
    if json:
        show.json({**asdict(copied), "from": names[0], "to": names[1], "segments": segments})
    else:
        _tell(copied, names, segments)
    return copied.verified


def accept(url: Url = None, state: State = None, config: Config = None, json: Json = False) -> None:
    """Accept a store that was replaced, or that lost what it acknowledged, as it is. Only a person can.

    Until then calls of tiers 3 and 4 are refused. First check what the sessions
    did that the store no longer knows: their leases are gone, and what they did
    can be allowed once more.
    """
    from callosum.stores.opening import open_store

    with _unseen(url), closing(open_store(_settings(url, state, config))) as store:
        require_person(store, ACCEPTING)
        was = store.accept(proven=True)
    if json:
        show.json({"ok": True, "was": was})
    elif was:
        show.line(f"Accepted: {was}.", "green")
    else:
        show.line("Nothing to accept: the store holds what it acknowledged.", "green")


def restore(
    settings: InFolder,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="Saved SQLite database of a gate.")],
    json: Json = False,
) -> None:
    """Replace the store by a saved SQLite database, and accept it. Stop all gates first.

    The previous database is kept beside it, under a name that ends in
    .before-restore.
    """
    from callosum.stores.opening import file_of, open_store, scheme_of
    from callosum.stores.sqlite import replace_file

    if scheme_of(settings) != "sqlite":
        raise ConfigError("only a SQLite database is restored by this command: see docs/operations.md", at="store")
    refuse_agents(None, "only a person can restore a store")
    replace_file(backup, file_of(settings))
    with closing(open_store(settings)) as store:
        store.accept(proven=True)
        entries = store.check().entries
    show.result({"ok": True, "entries": entries}, f"Restored from {backup}: {entries} entries.", "green", json=json)


# --- Choosing the store -------------------------------------------------------------------------------


def _settings(url: str | None, state: Path | None, config: Path | None) -> Settings:
    return settings_of(state, None, config, store=_url(url)) if url is not None else settings_of(state, None, config)


def _url(given: str) -> str:
    """Return the URL of the store. A password need not be on the command line, where others see it."""
    if given.startswith("env:"):
        name = given.removeprefix("env:")
        found = os.environ.get(name, "")
    elif given.startswith("file:"):
        name = given.removeprefix("file:")
        found = Path(name).read_text(encoding="utf-8").strip()
    else:
        return given
    if "://" not in found:
        raise ConfigError(f"expected the URL of a store in {name}", at=given)
    return found


@contextmanager
def _unseen(*given: str | None) -> Iterator[None]:
    """Remove passwords from what an error says about a URL, because drivers quote what they cannot read."""
    try:
        yield
    except CallosumError as error:
        text = str(error)
        for secret in _secrets(*given):
            text = text.replace(secret, "***")
        if text == str(error):
            raise
        typer.echo(f"callosum: {text}", err=True)
        raise typer.Exit(code_of(error)) from None


def _secrets(*given: str | None) -> set[str]:
    urls = []
    for one in given:
        try:
            urls.append(_url(one) if one is not None else os.environ.get("CALLOSUM_STORE", ""))
        except (CallosumError, OSError):
            urls.append(one or "")
    found = {match for url in urls for pattern in _SECRETS for match in pattern.findall(url) if match}
    return found | {unquote(secret) for secret in found}


# --- Output ---------------------------------------------------------------------------------------------


def _describe(health: StoreCheck, records: dict[str, int]) -> None:

    show.line(f"{health.engine}  ·  {clean(health.place, 300)}", "bold")
    show.line(
        f"schema {health.schema}, {health.entries} entries, {health.live} live, {health.size / 1e6:.1f} MB"
        + (f", log {health.log_size / 1e6:.1f} MB" if health.log_size else "")
    )
    if records:
        show.line("records: " + ", ".join(f"{count} {kind}" for kind, count in records.items()))


def _tell(copied: CopyResult, names: tuple[str, str], segments: int) -> None:

    show.line(f"{clean(names[0], 300)}  →  {clean(names[1], 300)}", "bold")
    rows = [(sort, same.count, same.digest) for sort, same in copied.sorts.items()]
    show.put(show.table("Compared", ("sort", ">records", "<digest"), rows))
    if copied.verified:
        show.line("Copied and verified: both hold the same.", "green")
    else:
        show.line(
            f"Not the same yet ({clean(copied.first, 300)}): gates write to the source. Stop them and run "
            "this again; it goes on from here.",
            "red",
        )
    if segments:
        show.line(
            f"{segments} rotated segments of the journal stay where they are, in the state folder: they are no part "
            "of a store.",
            "dim",
        )


class _Progress:
    """One line on standard error, on a terminal, with the progress of a copy."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, what: str, count: int) -> None:
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + _EVERY
            typer.echo(f"\r\x1b[K{what}: {count}", err=True, nl=False)

    def end(self) -> None:
        if self._shown:
            typer.echo("\r\x1b[K", err=True, nl=False)
