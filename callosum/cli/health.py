"""The checks of ``callosum doctor``. Each yields findings as values and changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from callosum import __version__
from callosum.cli.options import exists, open_gate, rulebook_of
from callosum.errors import CallosumError, StoreError
from callosum.hosts.checkup.finding import Finding
from callosum.model import Entry
from callosum.stores.base import different_keys
from callosum.stores.receipt import ADVICE

if TYPE_CHECKING:
    from callosum.settings import Settings

ROOM_LOW: Final = 100_000_000
"""Free bytes on the disk below which a person should act; below a tenth of it the check fails."""
LOG_LARGE: Final = 128_000_000
"""Bytes of the write-ahead log above which a process must be keeping it from being truncated."""


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the settings' state folder, one after another."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    says = f"Callosum {__version__}, {python}, SQLite {sqlite3.sqlite_version}, {sys.platform}"
    yield Finding("versions", "ok", says)
    config = str(settings.config) if settings.config else "no callosum.toml: defaults, flags and environment"
    yield Finding("settings", "ok", config)
    yield from _namesake()
    yield from _folder(settings.state)
    yield from _room(settings.state)
    yield from _rules(settings)
    yield from _store(settings)
    yield from _segments(settings)
    yield from _servers(settings)
    yield from _hosts(settings)


def _namesake() -> Iterator[Finding]:
    """Yield the finding that the unrelated PyPI package ``callosum`` writes into the same folder."""
    from importlib.metadata import distributions

    for found in distributions(name="callosum"):
        if (found.metadata["Name"] or "").lower() == "callosum":
            says = f"the unrelated package callosum {found.version} is installed and overwrites files of this one"
            mend = "pip uninstall callosum, then pip install --force-reinstall callosum-protocol (or from your clone)"
            yield Finding("package", "wrong", says, mend)
            return


def _folder(folder: Path) -> Iterator[Finding]:
    from callosum.regions.machine import is_read_only, network_file_system

    def wrong(says: str, mend: str) -> Finding:
        return Finding("state folder", "wrong", says, mend)

    another = "Name another with --state or CALLOSUM_STATE."
    try:
        found = folder.stat()
    except FileNotFoundError:
        yield Finding("state folder", "ok", f"{folder} does not exist yet; the first call makes it")
        return
    except OSError as fault:
        yield wrong(f"{folder}: {fault.strerror}", another)
        return
    posix, user = os.name == "posix", str(os.getuid()) if hasattr(os, "getuid") else "you"
    if not stat.S_ISDIR(found.st_mode):
        yield wrong(f"{folder} is no folder", another)
    elif is_read_only(folder):
        return  # the check of the disk reports it
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield wrong(f"{folder} cannot be written by you", f"Make it yours: chown {user} {folder}")
    elif posix and found.st_uid != os.getuid() and os.getuid() != 0:
        yield wrong(f"{folder} belongs to another user", "Name one of your own with --state.")
    elif loose := [path for path in _own_files(folder) if posix and path.stat().st_mode & 0o077]:
        names = ", ".join(path.name or str(path) for path in loose[:4])
        yield wrong(f"others on this machine can get at {names} in {folder}", f"chmod -R go= {folder}")
    elif kind := network_file_system(folder):
        says = f"{folder} is on a network file system ({kind}): locks may not hold there, and the journal can break"
        mend = "Keep it on a disk of this machine (--state); for gates of several machines: callosum serve --store URL."
        yield Finding("state folder", "advice", says, mend)
    else:
        yield Finding("state folder", "ok", f"{folder} is yours alone")


def _own_files(folder: Path) -> Iterator[Path]:
    """Yield the files with content, unless the folder itself keeps other users out."""
    if not folder.stat().st_mode & 0o077:
        return
    if folder.stat().st_mode & 0o022:
        yield folder
    for name in ("gate.db", "gate.db-wal", "content.key", "journal", "tokens.json"):
        if (folder / name).exists():
            yield folder / name


def _room(folder: Path) -> Iterator[Finding]:
    from callosum.regions.machine import is_read_only

    place = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    try:
        if is_read_only(place):
            advice = "Mount it writable, or name another folder with --state: nothing can be decided or recorded there."
            yield Finding("disk", "wrong", f"{folder} is on a file system that is mounted read-only", advice)
            return
        free = shutil.disk_usage(place).free
    except OSError as fault:
        yield Finding("disk", "advice", f"cannot be asked for its room: {fault}")
        return
    text = f"{free / 1e9:.1f} GB free"
    if free >= ROOM_LOW:
        yield Finding("disk", "ok", text)
    else:
        level: Literal["advice", "wrong"] = "wrong" if free < ROOM_LOW / 10 else "advice"
        yield Finding("disk", level, text, "Make room: on a full disk calls of tier 3 and 4 are refused.")


def _rules(settings: Settings) -> Iterator[Finding]:
    try:
        book = rulebook_of(settings)
    except CallosumError as error:
        yield Finding("rules", "wrong", str(error), "Put it right and look with: callosum rules check")
        return
    rules = book.current().rules
    own = book.path is not None and book.path.exists()
    which = f"your own file {book.path} first" if own else "the default ones"
    yield Finding("rules", "ok", f"{len(rules)} rules, {which}")


def _store(settings: Settings) -> Iterator[Finding]:
    if not exists(settings):
        yield Finding("store", "ok", "nothing has been decided here yet")
        return
    try:
        with open_gate(settings) as gate:
            health = gate.store.check()
            status = gate.status(namespace=settings.namespace)
            unproven = None
            if not health.problems:
                try:
                    gate.store.prove()
                except StoreError as error:
                    unproven = error
    except StoreError as error:
        yield Finding("store", "wrong", str(error), "Calls of tier 3 and 4 are refused until the store is back.")
        return
    if unproven is not None:
        yield Finding("store", "wrong", str(unproven), "Calls of tier 3 and 4 are refused until it can be written.")
    for problem in health.problems:
        ahead = (health.ahead > 1 and "ahead of the clock" in problem) or "the clock differs" in problem
        afresh = f"Stop the agents, keep a copy of {health.place}, and move it away to start afresh."
        sqlite = health.engine.startswith("SQLite")
        mend = afresh if sqlite else "Configure the server as the documentation of the stores says."
        if ADVICE in problem:
            mend = f"Look at the journal, and at what the sessions have done since. Then: {ADVICE}"
        mend = "Set the clock right; it goes by itself once the clock has caught up." if ahead else mend
        yield Finding("clock" if ahead else "store", "wrong", problem, mend)
    if health.content_keys > 1:
        mend = (
            "Give every server the same content.key in its state folder, and start them again; this goes a day later."
        )
        yield Finding("content key", "wrong", different_keys(health.content_keys), mend)
    if not (health.problems or unproven):
        records = f"schema {health.schema}, {health.entries} entries, {health.live} live, {health.size / 1e6:.1f} MB"
        yield Finding("store", "ok", f"sound: {records}")
    if health.log_size > LOG_LARGE:
        says = f"the write-ahead log has {health.log_size / 1e6:.0f} MB"
        yield Finding("log", "advice", says, "A program keeps the database open for reading; end it.")
    else:
        yield Finding("log", "ok", f"write-ahead log {health.log_size / 1e6:.1f} MB")
    if status.observing_until is not None or settings.mode == "observe":
        yield Finding(
            "mode", "advice", "the gate only observes: every call passes", "callosum on, or mode in callosum.toml"
        )
    if status.unknown:
        ids = ", ".join([*(str(holding.id) for holding in status.unknown[:5]), *["..."][: len(status.unknown) > 5]])
        which = f"{len(status.unknown)} actions" if len(status.unknown) > 1 else "one action"
        says = f"{which} never told how {'they' if len(status.unknown) > 1 else 'it'} ended: {ids}"
        yield Finding("unknown", "advice", says, "Look whether they happened: callosum resolve ID --happened, or --not")
    if status.asked:
        yield Finding("approvals", "advice", f"{len(status.asked)} calls wait for a person", "callosum watch")


def _segments(settings: Settings) -> Iterator[Finding]:
    from callosum.journal import Journal
    from callosum.stores.memory import MemoryStore

    segments = Journal(MemoryStore(), settings.state).segments()
    count = 0
    whole = []
    for segment in segments:
        try:
            count += sum(1 for _ in segment.read())
            whole.append(segment)
        except StoreError as error:
            advice = "Restore it from a backup, or move it away: the rest of the journal is shown without it"
            yield Finding("segments", "wrong", str(error), advice)
    if whole:
        size = sum(segment.path.stat().st_size for segment in whole)
        yield Finding("segments", "ok", f"{len(whole)} of the journal, {count} entries, {size / 1e6:.1f} MB")


def _servers(settings: Settings) -> Iterator[Finding]:
    from callosum.client import CallosumClient
    from callosum.server.listeners import running

    for one in running(settings.state):
        where = f"{one.address} (process {one.process.pid})"
        try:
            with CallosumClient(one.address, deadline=2, verify=False) as client:
                found = client.health()
        except CallosumError as error:
            yield Finding("server", "wrong", f"{where}: {error}", "callosum stop, and serve again")
        else:
            if found["status"] == "unavailable":
                advice = "Calls of tier 3 and 4 are refused until its store is back."
                yield Finding("server", "wrong", f"{where}: {found.get('store', 'its store is unavailable')}", advice)
            else:
                yield Finding("server", "ok", f"{where}, version {one.version}")
            for late in found.get("behind", ()):
                yield Finding("journal", "wrong", f"{where}: {late}", "What the journal has is handed on later.")
            yield from _connections(one.address, found.get("pool"))


def _connections(address: str, pool: Mapping[str, int] | None) -> Iterator[Finding]:
    """Yield a finding if a server has too few connections to its store."""
    if not pool:
        return
    advice = "More connections: ?pool=N in the store's URL, as far as the database allows for all servers together."
    if pool["waiting"]:
        used = f"{pool['waiting']} threads wait for one of its {pool['limit']} connections to the store"
        yield Finding("connections", "wrong", f"{address}: {used}", advice)
    elif pool["timeouts"]:
        vain = f"{pool['timeouts']} times no connection to the store came free in time, since it was started"
        yield Finding("connections", "advice", f"{address}: {vain}", advice)
    else:
        yield Finding("connections", "ok", f"{address}: {pool['open']} of {pool['limit']} to the store are open")


def _hosts(settings: Settings) -> Iterator[Finding]:
    from callosum.hosts.checkup.examine import examine as examine_hosts
    from callosum.hosts.inspection import UserContext
    from callosum.journal import EntryFilter, Journal

    def read(since: int) -> Iterator[Entry]:
        with open_gate(settings) as gate:
            yield from Journal(gate.store, settings.state).read(EntryFilter(since=since))

    here = UserContext(home=Path.home(), environ=os.environ, folder=Path.cwd())
    try:
        yield from examine_hosts(settings, here, read)
    except CallosumError as error:
        yield Finding("hosts", "wrong", f"cannot be looked over: {error}", host="any")
