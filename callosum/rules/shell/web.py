"""HTTP by ``curl``, ``wget`` and their like; mail by any program that sends it."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules import command as mails
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.shell import leaks, options, programs, verbs, wrap
from callosum.rules.shell.programs import tiers

if TYPE_CHECKING:
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


MAX_ADDRESSES: Final = 4096
"""Longest word of a mail command that is read for addresses, in characters."""
_SPLIT: Final = re.compile(r"^(?:([a-z][a-z0-9+.-]{0,15})://)?(?:[^/?#@]*@)?([^/?#]*)([^?#]*)", re.IGNORECASE)
_MUTATION: Final = re.compile(
    r"\bmutation\b.{0,512}?\b(?:delete|remove|destroy|drop|purge|archive)[A-Z_]\w*", re.DOTALL
)
_TO: Final = re.compile(
    r"[\"']?\b(?:to|cc|bcc|recipients?|email|personalizations)\b[\"']?\s{0,4}[:=]\s{0,4}(.{1,512})",
    re.IGNORECASE | re.DOTALL,
)
_NEXT_FIELD: Final = re.compile(
    r"[\"'](?:from|subject|text|html|body|reply_to|sender)[\"']\s*:|&(?:from|subject|text|html)=", re.IGNORECASE
)


def http(run: Run, method: str, url: str, data: list[str]) -> None:
    """Note a request; a POST whose address or body says what it does is judged by that."""
    method = method.upper()
    tier = tiers.HTTP_TIERS.get(method, 2)
    what = f"HTTP {keys.clean(method)}".rstrip()
    match = _SPLIT.match(url[:4096])
    scheme, host, path = match.groups() if match else ("", "", "")
    host = host.lower()
    words = {part for word in re.split(r"[/._~:-]", path) for part in verbs.tokens(word)} if path else set()
    if method == "POST" and path.rstrip("/").rsplit("/", 1)[-1] in programs.SEARCH_ENDPOINTS:
        tier = 0
    if tier == 2:
        text = "\n".join(data)[:65_536]
        if (
            words & programs.MAIL_NOUNS
            or verbs.tokens(host.split(".")[0])[:1] in (["mail"], ["email"])
            or (words & {"messages"} and ("@" in text and _TO.search(text) is not None))
        ):
            found = _addressees(data)
            if found:
                run.note(3, f"{what}, which sends mail")
                run.repeats = True
                for one in found:
                    run.key(3, f"email:{keys.clean(one)}")
                return
        said = words & lex.COMMAND_DESTROYS
        if said or _MUTATION.search(text[:8192]):
            tier, what = 4, f"{what} to delete something"
        elif words & {"close", "shutdown", "terminate", "revoke", "reset"}:
            tier, what = 4, f"{what} to end something"
        elif method in ("PUT", "PATCH") and words & programs.WEB_SETTING_NOUNS:
            tier, what = 4, f"{what}, which changes configuration"
        elif words & programs.MONEY_NOUNS and not words & {"search", "query", "list", "preview", "calculate"}:
            tier, what = 4, f"{what}, which moves money"
        if method == "POST":
            run.repeats = True
    run.note(tier, what)
    if host and "$" not in url:
        for one in keys.spell("url:", url if scheme else f"http://{url}"):
            run.key(tier, one, Mode.WRITE if tier else Mode.READ)


def _addressees(data: list[str]) -> list[str]:
    """Return the addresses in the fields of a request that name who gets the mail."""
    found: list[str] = []
    for field in [part for one in data[:64] for part in (one[:65_536].split("&") if one[:1] not in "{[" else [one])][
        :256
    ]:
        for match in islice(_TO.finditer(field), 64):
            tail = match.group(1).replace("%40", "@")
            end = _NEXT_FIELD.search(tail)
            found += keys.addresses(tail[: end.start()] if end else tail)
    return list(dict.fromkeys(found))[:64]


def curl(run: Run, argv: list[str], command: Command) -> None:
    """``curl``: the method decides; a transfer by SMTP is mail."""
    found = options.read(argv[1:], programs.CURL_TAKES)
    urls = found.args + found.values.get("--url", [])
    if any(one.lower().startswith(("smtp:", "smtps:")) for one in urls):
        mail(run, argv, command)
        return
    data = [value for name in programs.CURL_DATA_OPTIONS for value in found.values.get(name, [])]
    method = found.value("-X", "--request")
    if not method:
        if data and not found.has("-G", "--get"):
            method = "POST"
        elif found.has("-T", "--upload-file"):
            method = "PUT"
        else:
            method = "HEAD" if found.has("-I", "--head") else "GET"
    if command.stdin is not None and any(one[:1] == "@" for one in data):
        data.append(command.stdin)
    if not urls:
        run.note(1 if found.has("-K", "--config") else 0, "asks for nothing that is named")
    uploads = [value for name in ("-T", "--upload-file") for value in found.values.get(name, [])]
    for one in [*data, *(f"@{name}" for name in uploads)][:64]:
        if one[:1] == "@":
            run.reads(one[1:])
    taken = any(one[:2] == "@-" or "=@-" in one[:256] for one in data) or bool({"-", "."} & set(uploads))
    for url in urls[:32]:
        http(run, method, url, data)
        leaks.sent(run, url, [*data, *(f"@{one}" for one in uploads)][:64], command, reads=taken)
        if found.has("-O", "--remote-name"):
            _download(run, url.partition("?")[0].rstrip("/").rsplit("/", 1)[-1])
    target = found.value("-o", "--output")
    if target:
        _download(run, target)
    for name in ("-D", "--dump-header", "-c", "--cookie-jar"):
        if found.value(name):
            run.makes(found.value(name), "writes a file")


def _download(run: Run, name: str) -> None:
    run.makes(name, "downloads a file")
    run.brings(name)


def wget(run: Run, argv: list[str], command: Command) -> None:
    """``wget`` downloads into files unless it is told otherwise."""
    found = options.read(argv[1:], programs.WGET_TAKES)
    posted = found.value("--post-data", "--body-data")
    method = found.value("--method") or ("POST" if found.has("--post-data", "--post-file") else "GET")
    target = found.value("-O", "--output-document")
    file = found.value("--post-file", "--body-file")
    run.reads(file)
    for url in found.args[:32]:
        http(run, method, url, [posted] if posted else [])
        leaks.sent(run, url, [posted, f"@{file}"], command, reads=file in ("-", "/dev/stdin"))
        if found.has("--spider") or target == "-":
            continue
        name = url.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
        folder = found.value("-P", "--directory-prefix")
        _download(run, target or (f"{folder}/{name}" if folder else name))
    if not found.args:
        run.note(1, "downloads files")


def httpie(run: Run, argv: list[str], _command: Command) -> None:
    """``http METHOD URL field=value``."""
    found = options.read(argv[1:], programs.WEB_HTTPIE_TAKES)
    args = found.args
    method = args.pop(0) if len(args) > 1 and args[0].isalpha() and args[0].upper() in tiers.HTTP_TIERS else ""
    url, data = (args[0], args[1:]) if args else ("", [])
    if url[:1] == ":":
        url = "localhost" + url
    http(run, method or ("POST" if any("=" in one and "==" not in one for one in data) else "GET"), url, data)


def mail(run: Run, argv: list[str], command: Command) -> None:
    """Note a mail with every addressee that the command, its input and its pipe name."""
    program = argv[0].rsplit("/", 1)[-1]
    words = argv[1:]
    if program == "himalaya":
        said = [one for one in options.read(words, programs.WEB_MAIL_TAKES).args[:3] if one.isalpha()]
        acts = {"send", "reply", "forward", "write"} & set(said)
        if not acts:
            grave = 3 if "delete" in said else 1 if {"move", "copy", "flag", "save"} & set(said) else 0
            run.note(grave, "works on mail" if grave else "reads mail")
            for one in islice(filter(str.isdecimal, words), 32 if grave else 0):
                run.keyed(grave, "message", one)
            return
    elif not words and command.stdin is None and command.piped is None:
        run.note(0, "reads mail")
        return
    text, _, _ = wrap.source(command)
    spoken = " ".join(words)[:65_536]
    found = mails.spoken(f"{program} {spoken}\n{text[:65_536]}")
    found += mails.mailer_arguments([program, *(one for one in words if len(one) <= MAX_ADDRESSES)])
    run.note(3, "sends mail")
    run.repeats = True
    for one in list(dict.fromkeys(found))[:64]:
        run.key(3, f"email:{keys.clean(one)}")
    for one in mails.replied(f"{spoken}\n{text[:65_536]}"):
        run.key(3, f"email:thread:{keys.clean(one)}")
    if program == "himalaya" and "reply" in words:
        for one in [word for word in words[words.index("reply") + 1 :] if word[:1] != "-"][:1]:
            run.key(3, f"email:thread:{keys.clean(one)}")
