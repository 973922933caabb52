"""The generic rule: programs that no table knows are judged by the verb among their first words.

``cloud disks delete d1``: the first word that can hardly be anything but a verb decides; words that are
also nouns (``logs``, ``backup``) count where nothing else does. What is about access or money is
graver, as it is for tools. Options that are verbs (``--delete``) count too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callosum.rules import gravity, keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import maps
from callosum.rules.name import singular
from callosum.rules.shell import options, programs
from callosum.rules.shell.programs import lists

if TYPE_CHECKING:
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


MAX_WORD: Final = 96
"""How far a word is read for the parts it is made of, in characters: no program and no verb is longer."""
_NONE: Final[frozenset[str]] = frozenset()
_ACTION: Final = re.compile(
    r"\"(?:action|op|operation|method)\"\s{0,4}:\s{0,4}\"(?:delete|remove|destroy|drop|purge)\"", re.IGNORECASE
)
_SPLIT: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_TO_NONE: Final = re.compile(
    r"--(?:desired-(?:count|capacity)|replicas|num-nodes|node-count|max-(?:size|instances|replicas))"
    r"[= ]0(?: |$)|\bscale count (?:[\w-]{1,64}=)?0(?: |$)|\bps:scale (?:[^=]{0,128} )?[\w-]{1,64}=0(?: |$)"
)
"""What leaves nothing of what runs."""
_FILE: Final = re.compile(r"\w\.[a-z]{1,4}$")
_WORD: Final = re.compile(r"[A-Za-z][\w:.-]{0,47}$")


def tokens(word: str) -> list[str]:
    """Return the parts of a word: ``delete-dbInstance`` is ``delete``, ``db``, ``instance``."""
    if word.islower() and word.isalpha():
        return [word]
    found = [one.lower() for one in _SPLIT.findall(word, 0, MAX_WORD)]
    return ["stop", *found[2:]] if found[1:2] and (found[0], found[1]) in _OFF else found


_OFF: Final = frozenset({("power", "off"), ("power", "down"), ("power", "cycle"), ("shut", "down"), ("turn", "off")})
"""Verbs of two words that end what runs."""


def is_dry(argv: list[str]) -> bool:
    """Tells whether a command is only asked what it would do."""
    for word in argv:
        if word[:1] == "-" and word.lower().partition("=")[0] in programs.DRY_RUN_OPTIONS:
            value = word.partition("=")[2].lower()
            if value not in ("false", "none", "0", "no"):
                return True
        elif word == "--":
            return False
    return False


def asks_for_help(argv: list[str]) -> bool:
    """Tells whether a command is only asked what it is."""
    if len(argv) > 1:
        if argv[1] in ("help", "--version", "-V", "-version", "--help"):
            return True
        if argv[1] == "version":
            return not _sets_version(argv)
        if argv[-1] in ("-h", "-help", "help") and len(argv) <= 4:
            return argv[0] != "shutdown"  # where it is the letter for "halt"
    return "--help" in argv


def _sets_version(argv: list[str]) -> bool:
    """Tells whether the command ``version`` may be given one, or a part to raise: ``npm version patch``."""
    if argv[0].rsplit("/", 1)[-1] in programs.SETS_VERSION:
        return True
    return any(word[:1] != "-" or word.lstrip("-").partition("=")[0] in programs.VERSION_WORDS for word in argv[2:])


_NUMBER: Final = re.compile(r"v?\d+\.\d")


def generic(run: Run, program: str, argv: list[str], _command: Command) -> None:
    """Judges a command by the verb among its first words."""
    if asks_for_help(argv) or (len(argv) == 2 and argv[1] in ("-v", "-h")):
        run.note(0, "only tells of itself")
        return
    if is_dry(argv):
        run.note(0, "only tells what it would do")
        return
    words, flags = _first(argv)
    verb, parts, place = _named(program, words)
    named = {part for word in words[: place + 1] for part in _nouns(word)} | set(parts)
    tier, what = tier_of(program, verb, named, flags, deep=place > 0)
    if (
        tier == 4
        and parts[1:]
        and (verb in lex.COMMAND_DESTROYS or verb in lex.COMMAND_REMOVES)
        and programs.MARK_NOUNS.issuperset(parts[1:])
    ):
        tier, what = 2, f'"{verb}" takes off what is soon put on again'
    for flag in flags:
        first = tokens(flag)[:2]
        destroys = first[:1] and (
            first[0] in lex.COMMAND_DESTROYS or first[0] == "remove" or first == ["reset", "offsets"]
        )
        destroys = destroys and programs.MARK_NOUNS.isdisjoint(first[1:])
        if destroys and first[1:] and first[0] in ("remove", "drop") and program not in programs.OUTWARD:
            destroys = not programs.LASTING_NOUNS.isdisjoint(tokens(flag)[1:])  # else a matter of what is shown or made
        if destroys and "orphans" not in flag and verb not in lex.COMMAND_READS and tier < 4:
            tier, what = 4, f"{flag} destroys"
    if not verb and tier == 1 and not programs.LIST_OPTIONS.isdisjoint(flags):
        tier, what = 0, "only looks"
    if 0 < tier < 4:
        text = " ".join(argv[1:64])[:8192]
        if program in programs.OUTWARD and _TO_NONE.search(text):
            tier, what = 4, "an option leaves none of what runs"
        elif _ACTION.search(text):
            tier, what = 4, "an argument says that it deletes"
    run.note(tier, what)
    if tier == 3 and "mail" in what:
        run.repeats = True
        for address in keys.addresses(" ".join(argv[1:])[:4096]):
            run.key(3, f"email:{keys.clean(address)}")
    elif tier >= 2 and (program in programs.OUTWARD or tier == 4):
        _keyed(run, program, words, place, argv, tier)


def _named(program: str, words: list[str]) -> tuple[str, list[str], int]:
    """Return what ``_verb`` does; where the words only look, a verb in the program's own name counts (``rm-list``)."""
    verb, parts, place = _verb(words, outward=program in programs.OUTWARD)
    own = tokens(program)
    if len(own) > 1 and (not verb or verb in lex.COMMAND_READS or verb in lex.COMMAND_WEAK_READS):
        said = own[0] if own[0] in lex.COMMAND_STOPS else ""
        said = said or next(
            (one for one in own if one in lex.COMMAND_DESTROYS or one in lex.COMMAND_REMOVES or one == "uninstall"), ""
        )
        said = said or ("" if verb else next((one for one in own if one in lex.COMMAND_READS), ""))
        if said or not verb:
            return said, own, place
    if verb == "version" and any(
        one in programs.VERSION_WORDS or _NUMBER.match(one) for one in words[place + 1 : place + 2]
    ):
        return "set", parts, place
    return verb, parts, place


def _keyed(run: Run, program: str, words: list[str], place: int, argv: list[str], tier: int) -> None:
    """Names what an outward command changes: its program, its nouns and the id that follows the verb."""
    nouns = [word for word in words[:place] if _WORD.match(word)]
    verb_parts = tokens(words[place]) if place < len(words) else []
    noun = "-".join([*nouns, *[one for one in verb_parts[1:] if one != "batch"]])[:128]
    addresses = [
        word for word in argv[1:64] if "://" in word and word[:1] != "-" and not word.startswith(("file", "arn"))
    ]
    if addresses:
        for name in keys.spell("url:", addresses[-1]):
            run.key(tier, name)
        return
    value = words[place + 1] if place + 1 < len(words) else ""
    if value and program in programs.JUDGED_BY_OPTIONS and argv[argv.index(value) - 1] != words[place]:
        value = ""  # one of several values of an option
    if not value:
        found = options.read(argv[1:], _IDS)
        value = next((found.values[one][-1] for one in lists.ID_OPTIONS if one in found.values), "")
    values = [value] if value else _identified(noun, _given(argv, many=program in programs.JUDGED_BY_OPTIONS))
    for one in values[:16]:
        run.keyed(tier, program, f"{noun}/{one}" if noun else one)


def _identified(noun: str, given: dict[str, list[str]]) -> list[str]:
    """Return the values of the option that names what a command is about: the one most like its nouns."""
    about = {one.rstrip("s") for one in tokens(noun)}
    best: list[str] = []
    most = -1
    for name, values in given.items():
        parts = {one.rstrip("s") for one in tokens(name.lstrip("-"))}
        alike = parts - programs.ID_SUFFIXES
        if (name.endswith(lists.ID_OPTION_ENDINGS) or (alike and alike <= about)) and len(alike & about) > most:
            best, most = values, len(alike & about)
    return best


_IDS: Final = frozenset(lists.ID_OPTIONS)


def _given(argv: list[str], *, many: bool) -> dict[str, list[str]]:
    """Return long options with the word that is given to each, or with ``many`` all words up to the next option."""
    found: dict[str, list[str]] = {}
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if word[:2] != "--":
            continue
        if equals and value:
            found.setdefault(name, []).append(value)
        for one in argv[at + 1 : at + (65 if many else 2)] if not equals else ():
            if one[:1] == "-":
                break
            found.setdefault(name, []).append(one)
    return found


def _first(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the words that may be nouns and verbs, and the options.

    The word after a long option may be its value: it is left out, unless it is a verb.
    """
    words: list[str] = []
    flags: list[str] = []
    value = False
    for word in argv[1:64]:
        if word[:1] == "-":
            if word == "--":
                break
            flags.append(word.partition("=")[0].lower())
            value = "=" not in word and len(word) > 1
        elif value and not _is_verb(word):
            value = False
        else:
            value = False
            words.append(word)
    return words, flags


def _nouns(word: str) -> list[str]:
    """Return what a word is about: not what the product is called, nor the policies of a timetable."""
    parts = tokens(word)
    if parts[-2:] in (["record", "set"], ["record", "sets"]):
        return [*parts, "dns"]
    if parts[-1:] == ["manager"]:
        return parts[-1:]
    if parts[-1:] in (["policy"], ["policies"]) and not programs.TIMETABLE_NOUNS.isdisjoint(parts):
        return parts[:-1]
    return parts


def _names_file(word: str) -> bool:
    return _FILE.search(word) is not None and word.rpartition(".")[2] not in lex.COMMAND_DESTROYS


def _is_verb(word: str) -> bool:
    first = tokens(word)[:1]
    return bool(first) and (
        first[0] in lex.COMMAND_DESTROYS
        or first[0] in lex.COMMAND_REMOVES
        or first[0] in lex.COMMAND_READS
        or first[0] in lex.COMMAND_UNDOES
    )


def _verb(words: list[str], *, outward: bool) -> tuple[str, list[str], int]:
    """Return the verb, the parts of its word, and which word that is.

    Where the first word is a folder, or a later one may be, it is taken for an operand and not for a look. Programs for
    other machines (``outward``) have no such operands.
    """
    weak: tuple[str, list[str], int] = ("", [], 0)
    operands = not outward and bool(words) and words[0] in programs.FOLDER_NAMES
    for place, word in enumerate(words[:5]):
        if not _WORD.match(word) or "::" in word or _names_file(word):  # ``repository::archive`` is a name
            if place:
                break
            continue
        parts = tokens(word)
        if not lex.COMMAND_ENDS.isdisjoint(parts) and parts[0] not in lex.COMMAND_READS and parts[0] != "cancel":
            return "delete", parts, place
        for at, part in enumerate(parts[:3] if len(parts) < 4 else parts[:2]):
            # What follows a hyphen may be a noun (``product-search``): a look there yields to a verb of its own.
            if (
                not outward
                and place
                and (
                    part in programs.FOLDER_NAMES
                    or (operands and (part in lex.COMMAND_READS or part in lex.COMMAND_WEAK_READS))
                )
            ):
                continue
            if part in lex.COMMAND_WEAK or part in lex.COMMAND_WEAK_READS or (at and part in lex.COMMAND_READS):
                if not weak[0] or (weak[0] not in lex.COMMAND_WRITES and part in lex.COMMAND_WRITES):
                    weak = (part, parts, place)
            elif (
                part in lex.COMMAND_DESTROYS
                or part in lex.COMMAND_REMOVES
                or part in lex.COMMAND_UNDOES
                or part in lex.COMMAND_STOPS
                or part in lex.COMMAND_READS
                or part in lex.COMMAND_WRITES
                or (place and part in maps.ACT_KINDS)
            ):
                return part, parts, place
    return weak


def tier_of(program: str, verb: str, named: set[str], flags: list[str], *, deep: bool) -> tuple[int, str]:
    """Return how grave a verb is; ``deep``: it follows a noun, so that its program has many verbs."""
    if program in programs.TEXT_PROGRAMS:
        return 0, "only looks"
    if verb == "migrate" and not {"fresh", "reset", "wipe"}.isdisjoint(named):
        return 4, "drops what the database holds"
    tier, what = _tier_of(program, verb, named, flags, deep=deep)
    if deep and 0 < tier < 4 and verb not in lex.COMMAND_FETCHES:
        nouns = {singular(one) for one in named - {verb}}
        graver, about = gravity.judge(verb, tier, nouns, "") if nouns else (0, "")
        if graver > tier and about not in ("", "access", "money"):
            return graver, f'"{verb}" and what it is about: {maps.CLASS_NAMES[about]}'
    return tier, what


def _tier_of(program: str, verb: str, named: set[str], flags: list[str], *, deep: bool) -> tuple[int, str]:
    if not verb:
        return 1, "nothing tells what it does"
    if verb in lex.COMMAND_READS:
        return 0, f'"{verb}" only looks'
    if verb in lex.COMMAND_DESTROYS or verb in lex.COMMAND_REMOVES:
        return 4, f'"{verb}" destroys what may last'
    if verb in lex.COMMAND_UNDOES or (verb == "archive" and deep):
        return 4, f'"{verb}" takes back what others may rely on'
    if (named | {verb}) & (lex.COMMAND_PAYS | programs.MONEY_NOUNS) - (
        programs.STREAM_NOUNS if program in programs.OUTWARD else _NONE
    ):
        return 4, "moves money"
    if verb not in lex.COMMAND_WEAK_READS and verb not in lex.COMMAND_FETCHES:
        if named & programs.ACCESS_NOUNS:
            return 4, "changes access or configuration"
        if program in programs.OUTWARD and named & programs.SETTING_NOUNS:
            return 4, "changes the configuration of what runs"
    if verb == "close" and named & programs.ACCOUNT_NOUNS:
        return 4, "closes an account"
    if verb in lex.COMMAND_STOPS:
        return _stop(program, verb, named, flags, deep=deep)
    if verb in lex.COMMAND_WEAK_READS and verb not in lex.COMMAND_WRITES:
        return 0, f'"{verb}" only looks'
    if verb == "send":
        return (3, "sends mail") if named & {"mail", "email", "mails", "emails", "gmail"} else (2, "sends something")
    if verb in ("publish", "promote", "deploy", "release"):
        return 3, f'"{verb}" makes something public'
    outward = program in programs.OUTWARD and verb not in lex.COMMAND_LOCAL
    return (2, f'"{verb}" changes something outside') if outward else (1, f'"{verb}" changes something')


def _stop(program: str, verb: str, named: set[str], flags: list[str], *, deep: bool) -> tuple[int, str]:
    if verb in ("clear", "empty", "prune"):
        if named & programs.CACHE_NOUNS or (verb != "prune" and not deep):
            return 1, f'"{verb}" removes what can be made again'
        return 4, f'"{verb}" removes what the command does not name'
    forced = verb in ("uninstall", "kill") and not {"--force", "-f"}.isdisjoint(flags)
    if forced or (verb == "kill" and deep):
        return 4, f'"{verb}" ends what others may use'
    if program in programs.OUTWARD and verb in lex.COMMAND_ENDS_THERE:
        return 4, f'"{verb}" stops what others use'
    return 3, f'"{verb}" stops or removes something others may use'
