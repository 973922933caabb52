"""Programs that read, write and remove files."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules import command as patches
from callosum.rules.shell import leaks, options, places, programs, wrap
from callosum.rules.shell.programs import groups, lists

if TYPE_CHECKING:
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


def look(run: Run, argv: list[str], command: Command) -> None:
    """Programs that show what is in files."""
    run.note(0, "only looks")
    if len(argv) == 1:
        return
    program = argv[0]
    found = options.read(argv[1:], groups.FILE_TAKES.get(program, programs.VIEWER_TAKES))
    if program == "sort" and found.value("-o", "--output"):
        run.makes(found.value("-o", "--output"), "writes a file")
    scripted = program in programs.TAKES_SCRIPT_FIRST and not found.has(*programs.SCRIPT_OPTIONS)
    for path in found.args[scripted:][:32]:
        run.reads(path)
    for sign, target in command.redirects:
        if sign == "<":
            run.reads(target)


def edit(run: Run, argv: list[str], command: Command) -> None:
    """``sed``, ``awk``, ``yq``: they show files, unless they are told to write them in place."""
    found = options.read(argv[1:], groups.FILE_TAKES.get(argv[0], programs.VIEWER_TAKES))
    scripted = found.has(*programs.SCRIPT_OPTIONS)
    in_place = any(one[:2] == "-i" or one in ("--in-place", "--inplace") for one in found.flags)
    if argv[0] in programs.AWKS:
        in_place = "inplace" in argv
        _awk_runs(run, "".join(found.args[:1]))
    if not in_place:
        look(run, argv, command)
        return
    for one in found.args[0 if scripted else 1 :]:
        run.makes(one, "edits a file in place")


def _awk_runs(run: Run, text: str) -> None:
    """Judge the commands that a program of awk runs: by ``system``, and at either end of a pipe."""
    told = True
    for match in islice(_AWK_TEXT.finditer(text, 0, 32_768), 64):
        before, after = text[max(0, match.start() - 16) : match.start()].rstrip(), text[match.end() : match.end() + 16]
        if before.endswith("system(") or (before.endswith("|") and not before.endswith("||")) or _GETS.match(after):
            run.within(match.group(1).replace('\\"', '"'))
            told = told and not before.endswith("system(")
    if told and "system(" in text:
        run.note(3, "runs what the command does not tell")


_AWK_TEXT: Final = re.compile(r"\"((?:[^\"\\]|\\.){0,2000})\"")
_GETS: Final = re.compile(r"\s{0,8}\|&?\s{0,8}getline\b")


def remove(run: Run, argv: list[str], _command: Command) -> None:
    """``rm``, ``rmdir``, ``unlink``; ``shred`` and its like leave nothing to restore."""
    program = argv[0].rsplit("/", 1)[-1].lower()
    if "--help" in argv or "--version" in argv:
        run.note(0, "only tells of itself")
        return
    found = options.read(argv[1:], programs.FILE_REMOVE_TAKES if program == "shred" else options.NONE)
    args = found.args
    if program in ("del", "erase", "rd"):
        args = [one for one in args if not _SWITCH.fullmatch(one)]
    deep = program in ("rd", "rmdir", "rimraf", "del-cli") or found.has(
        "-r", "-R", "--recursive", "-Recurse", "-recurse"
    )
    deep = deep or (len(args) < len(found.args) and "/s" in map(str.lower, found.args))
    if program == "rmdir":
        for one in found.args:
            place = run.place(one)
            tier = 1 if place.kind in (places.INSIDE, places.SHORT_LIVED) else run.policy.outside_file
            run.note(tier, "removes an empty folder")
            run.file(tier, place, Mode.WRITE, tree=True)
        return
    for one in args[:256]:
        run.removes(one, deep=deep)
    if program in ("shred", "srm", "wipe"):
        run.note(4, "overwrites files, so that nothing can be restored")
    elif not args:
        run.note(1, "removes nothing that is named")


_SWITCH: Final = re.compile(r"/[A-Za-z]")
"""An option as the commands of Windows have them."""


def move(run: Run, argv: list[str], _command: Command) -> None:
    """``mv`` and ``rename``: the source will be gone, the target is written."""
    sources, target, found = _sources(argv)
    if not target:
        run.note(1, "moves files")
        return
    place = run.place(target)
    if place.kind == places.NOWHERE:
        run.note(4, "moves files into nothing")
        for one in sources:
            run.file(4, run.place(one), Mode.WRITE, whole=True)
        return
    for one in sources:
        at = run.place(one)
        tier = {
            places.WHOLE: run.policy.whole,
            places.HISTORY: run.policy.whole,
            places.SYSTEM: run.policy.system,
            places.KEPT_KEYS: 4,
        }.get(at.kind, 1)
        run.note(tier, f"moves files from {at.kind}" if tier > 1 else "moves files")
        run.file(tier, at, Mode.WRITE, whole=True)
    _into(run, sources, target, many=len(sources) > 1 or found.has("-t", "--target-directory"), what="moves files")


def copy(run: Run, argv: list[str], _command: Command) -> None:
    """``cp``, ``install``, ``ln``: the source is read, the target written."""
    program = argv[0].rsplit("/", 1)[-1]
    sources, target, found = _sources(argv)
    if program == "install" and found.has("-d", "--directory"):
        for one in [*sources, target]:
            run.makes(one, "makes a folder", empty=True)
        return
    if program == "ln" and not sources:
        sources, target = [target], target.rsplit("/", 1)[-1]
    deep = found.has("-r", "-R", "-a", "--recursive", "--archive")
    if program != "ln":
        for one in sources[:64]:
            if not deep:
                run.reads(one)
    elif run.watch is not None:
        for one in sources[:64]:
            run.watch.word(run, one)  # a link is another name for what it points to
    what = "links files" if program == "ln" else "copies files"
    if not target:
        run.note(1, what)
        return
    _into(run, sources, target, many=len(sources) > 1 or found.has("-t", "--target-directory"), what=what, tree=deep)


def _sources(argv: list[str]) -> tuple[list[str], str, options.Options]:
    found = options.read(argv[1:], programs.COPY_TAKES)
    target = found.value("-t", "--target-directory")
    if target:
        return found.args, target, found
    return (found.args[:-1], found.args[-1], found) if found.args else ([], "", found)


def _into(run: Run, sources: list[str], target: str, *, many: bool, what: str, tree: bool = False) -> None:
    """Note the files that ``sources`` become in ``target``, which may be a folder."""
    if many or target[-1:] == "/" or target in (".", ".."):
        for one in sources[:64]:
            name = one.rstrip("/").rsplit("/", 1)[-1]
            run.makes(f"{target.rstrip('/')}/{name}", what, tree=tree)
        if not sources:
            run.makes(target, what, tree=True)
    else:
        run.makes(target, what, tree=tree)
        if run.watch is not None:  # the target may be a folder
            for one in sources[:64]:
                name = one.rstrip("/").rsplit("/", 1)[-1]
                if name not in ("", ".", "..") and not any(sign in name for sign in "*?[$`"):
                    run.watch.word(run, f"{target}/{name}", whole=tree)


def make(run: Run, argv: list[str], _command: Command) -> None:
    """``touch``, ``mkdir``, ``truncate``, ``tee``, ``split``: files that are made or written."""
    program = argv[0].rsplit("/", 1)[-1]
    if program == "truncate":
        found = options.read(argv[1:], programs.FILE_MAKE_TAKES)
        for one in found.args:
            run.makes(one, "cuts a file")
    elif program == "tee":
        found = options.read(argv[1:])
        mode = Mode.APPEND if found.has("-a", "--append") else Mode.WRITE
        for one in found.args:
            run.makes(one, "writes a file", mode)
        run.note(0, "only looks")
    else:
        found = options.read(argv[1:], programs.FILE_MAKE_TAKES_2)
        for one in found.args[:64]:
            run.makes(one, "makes files", Mode.WRITE if program == "split" else Mode.APPEND, empty=True)
        if not found.args:
            run.note(1, "makes files")


_ONESELF: Final = re.compile(r"\$\{?(?:USER|LOGNAME|UID)\b|(?:\$\(|`)(?:whoami|id -un?)\b")
"""Who runs the command, as ``chown`` is told."""


_GRAVE_DEEP: Final = frozenset(
    (places.WHOLE, places.HISTORY, places.OUTSIDE, places.SYSTEM, places.KEPT_KEYS, places.UNKNOWN)
)


def change_mode(run: Run, argv: list[str], _command: Command) -> None:
    """``chmod``, ``chown``, ``chgrp``: grave for the machine's own trees and for a whole working folder."""
    found = options.read(argv[1:], programs.FILE_CHANGE_MODE_TAKES)
    deep = found.has("-R", "--recursive")
    args, owner = found.args, ""
    if len(args) > 1 and not any(one in args[0] for one in "/*") and args[0] not in (".", ".."):
        owner, args = args[0], args[1:]
    for one in args[:64]:
        place = run.place(one)
        tier = 1
        if deep and place.kind in _GRAVE_DEEP:
            tier = run.policy.outside if place.kind != places.UNKNOWN else 2
            if place.kind == places.WHOLE:
                tier = run.policy.whole if not _ONESELF.match(owner) else 1
        elif place.kind in (places.SYSTEM, places.DEVICE):
            tier = run.policy.system
        elif place.kind == places.KEPT_KEYS:
            tier = 1  # making keys private is what everybody is told to do
        run.note(tier, f"changes who may use files {place.kind}")
        run.file(tier, place, Mode.WRITE, tree=deep, whole=deep)
    if not args:
        run.note(1, "changes who may use files")


def archive(run: Run, argv: list[str], _command: Command) -> None:
    """``tar``, ``unzip``, ``zip``, ``gzip``: what is packed is read, what is unpacked is added to a folder."""
    program = argv[0].rsplit("/", 1)[-1]
    words = argv[1:]
    if program == "tar" and words and words[0][:1] != "-":
        words = ["-" + words[0], *words[1:]]
    takes = (programs.FILE_ARCHIVE_TAKES_2 | set(lists.TAR_RUNS)) if program == "tar" else programs.FILE_ARCHIVE_TAKES
    found = options.read(words, takes)
    if program == "tar":
        for option in lists.TAR_RUNS:
            for one in found.values.get(option, []):
                wrap.runs_as_told(run, one.removeprefix("exec="))
        file = found.value("-f", "--file")
        if found.has("-c", "-r", "-u", "--create", "--append"):
            run.makes(file, "packs files")
        elif found.has("-t", "--list"):
            run.note(0, "only looks")
        else:
            folder = found.value("-C", "--directory") or "."
            run.makes(folder.rstrip("/") + "/", "unpacks files", Mode.APPEND, tree=True)
        if found.has("--remove-files"):
            for one in found.args:
                run.removes(one, deep=True)
    elif program == "unzip":
        if found.has("-l", "-t", "-v", "-p"):
            run.note(0, "only looks")
        else:
            run.makes((found.value("-d") or ".").rstrip("/") + "/", "unpacks files", Mode.APPEND, tree=True)
    elif program in ("zip", "7z", "7za", "rar"):
        _zipped(run, program, words, found)
    else:
        for one in found.args:
            run.makes(one, "packs or unpacks a file")
        run.note(0 if found.has("-c", "-l", "-t") or not found.args else 1, "packs or unpacks")


def _zipped(run: Run, program: str, words: list[str], found: options.Options) -> None:
    """``zip``, ``7z``, ``rar``: the first file is written; some of their options move files or name a folder."""
    args = found.args if program == "zip" else found.args[1:]
    run.makes(args[0] if args else "", "packs files")
    run.note(1, "packs files")
    if program == "zip" and found.has("-m", "--move"):
        for one in args[1:]:
            run.removes(one, deep=True)
    for one in words if program != "zip" else ():
        if one[:2] == "-o":
            run.makes(one[2:].rstrip("/") + "/", "unpacks files", Mode.APPEND, tree=True)


def synchronise(run: Run, argv: list[str], _command: Command) -> None:
    """``rsync`` and ``scp``: between folders, or with another machine."""
    program = argv[0].rsplit("/", 1)[-1]
    takes = programs.FILE_SYNCHRONISE_TAKES
    if program == "scp":
        takes = programs.FILE_SYNCHRONISE_TAKES_2
    found = options.read(argv[1:], takes)
    wrap.runs_as_told(run, found.value("-e", "--rsh") if program == "rsync" else found.value("-S"))
    args = found.args
    if len(args) < 2:
        run.note(0 if program == "rsync" else 1, "copies files")
        return
    *sources, target = args
    if program == "rsync" and (found.has("-n", "--dry-run", "--list-only")):
        run.note(0, "only tells what it would do")
        return
    host, path = _host(target)
    if any(one == "--del" or one.startswith("--delete") for one in found.flags):
        run.note(run.policy.mirror, "removes what the source does not hold, which the command does not name")
        if not host:
            run.file(run.policy.mirror, run.place(path), Mode.WRITE, tree=True, whole=True)
    if found.has("--remove-source-files"):
        for one in sources:
            run.removes(one, deep=True, verb="moves away")
    for one in sources:
        if not _host(one)[0]:
            run.reads(one)
            if host and not leaks.is_here(host) and leaks.secret(run, one, settings=False):
                run.note(4, leaks.SENDS)
    if host:
        place = places.place(path or ".", None, None, run.policy)
        tier = run.policy.system if place.kind in (places.SYSTEM, places.KEPT_KEYS) or place.path == "/" else 2
        run.note(tier, "writes files on another machine" + (f" {place.kind}" if tier > 2 else ""))
        run.keyed(tier, f"host:{host}", place.path)
    else:
        _into(
            run,
            [_host(one)[1] for one in sources],
            path,
            many=program == "scp" and path.endswith("/"),
            what="copies files",
            tree=program == "rsync" or found.has("-r"),
        )


def _host(word: str) -> tuple[str, str]:
    """Split ``user@host:path``; the host is ``""`` for a path of this machine."""
    if word.startswith(("rsync://", "scp://", "sftp://")):
        rest = word.partition("://")[2]
        return rest.partition("/")[0].rpartition("@")[2].lower() or "?", "/" + rest.partition("/")[2]
    head, colon, path = word.partition(":")
    if colon and "/" not in head and len(head) > 1:
        return head.rpartition("@")[2].lower(), path.lstrip(":")
    return "", word


def raw_copy(run: Run, argv: list[str], _command: Command) -> None:
    """``dd of=``."""
    target = next((one[3:] for one in argv if one[:3] == "of="), "")
    if target:
        run.makes(target, "writes a file")
    run.note(0, "only looks")


def patch(run: Run, argv: list[str], command: Command) -> None:
    """``patch`` and ``apply_patch``: the files that the patch names, where its text is here."""
    found = options.read(argv[1:], programs.FILE_PATCH_TAKES)
    if found.has("--dry-run"):
        run.note(0, "only tells what it would do")
        return
    text = wrap.source(command)[0] or "\n".join(found.args if "apply" in argv[0] else [])
    named = patches.patched({"patch": text})
    for one in named:
        run.makes(one, "patches a file")
    if not named:
        run.note(1, "patches files")
        for one in found.args[:1]:
            run.makes(one, "patches a file")


MAX_PUSHED: Final = 32
"""Number of folders of ``pushd`` that are remembered."""


def change_folder(run: Run, argv: list[str], _command: Command) -> None:
    """``cd``, ``pushd``: where the rest of the line happens."""
    target = next((one for one in argv[1:] if one[:1] != "-" or one == "-"), "~")
    run.note(0, "goes to a folder")
    if argv[0] == "pushd" and len(run.pushed) < MAX_PUSHED:
        run.pushed.append(run.where)
    if argv[0] == "popd" and run.pushed:
        run.where = run.pushed.pop()
    else:
        run.goes("-" if argv[0] == "popd" else target)
