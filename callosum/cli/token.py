"""``callosum token``: manage the tokens of the server's clients."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callosum.cli import show
from callosum.cli.codes import NO
from callosum.cli.options import InFolder, Json, open_gate, option
from callosum.cli.person import require_person
from callosum.cli.text import clean
from callosum.cli.times import clock, seconds
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.server.tokens import Token, Tokens
    from callosum.settings import Settings

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, as the journal shows it.")]


def add(
    settings: InFolder,
    name: Name,
    role: Annotated[str, option("--role", "ROLE", "actor (for a host), approver or reader (for a person).")] = "actor",
    instance: Annotated[str | None, option("--instance", "NAME", "The only instance the token may act for.")] = None,
    namespace: Annotated[
        list[str] | None, option("--namespace", "NAME", "The only namespaces the token is valid in.")
    ] = None,
    expires: Annotated[str | None, option("--expires", "TIME", 'Lifetime, such as "12h", "30d".')] = None,
    json: Json = False,
) -> None:
    """Create a token and print it, this once. An approver's token requires a person at a terminal."""
    from callosum.server.tokens import Role

    tokens = _tokens(settings)
    if role not in tuple(Role):
        raise ConfigError(f'expected "actor", "approver" or "reader", not {role!r:.60}', at="--role")
    until = time.time() + seconds(expires, "--expires") if expires is not None else None
    if role == Role.APPROVER:
        _require_person(settings)
    secret = tokens.add(
        name, role=Role(role), instance=instance, namespaces=tuple(namespace) if namespace else None, expires=until
    )
    _hand_over(secret, _of(tokens, name), json=json)


def list_(settings: InFolder, json: Json = False) -> None:
    """List the tokens without their secrets, which are stored nowhere."""
    found = _tokens(settings).list()
    if json:
        show.json({"tokens": [_facts(token) for token in found]})
        return
    if not found:
        show.line("There are no tokens.")
        return
    rows: list[Sequence[object]] = []
    for one in found:
        spaces = ", ".join(one.namespaces or ("all",))
        ends = one.expires, one.former_until
        rows.append((one.name, one.role.value, one.instance or "any", spaces, one.created, *ends))
    columns = ("<name", "role", "instance", "namespaces:120", "made", "ends in", "old one ends in")
    show.put(show.table("Tokens", columns, rows))


def remove(settings: InFolder, name: Name, json: Json = False) -> None:
    """Remove a token. The server refuses it from then on, without a restart."""
    tokens = _tokens(settings)
    _of(tokens, name)
    tokens.remove(name)
    show.result({"removed": name}, f"The token {clean(name)} has ended.", "green", json=json)


def rotate(
    settings: InFolder,
    name: Name,
    grace: Annotated[str, option("--grace", "TIME", 'How long the old secret stays valid, such as "10m", "1h".')] = "0",
    json: Json = False,
) -> None:
    """Give a token a new secret and print it, this once."""
    from callosum.server.tokens import Role

    tokens = _tokens(settings)
    span = seconds(grace, "--grace")
    if _of(tokens, name).role is Role.APPROVER:
        _require_person(settings)
    secret = tokens.rotate(name, span)
    _hand_over(secret, _of(tokens, name), json=json)


def _tokens(settings: Settings) -> Tokens:
    from callosum.server.tokens import FILE, Tokens

    return Tokens(settings.state / FILE)


def _of(tokens: Tokens, name: str) -> Token:
    """Return the token with this name. If there is none, exit with an error."""
    for token in tokens.list():
        if token.name == name:
            return token
    typer.echo("callosum: there is no token with this name; callosum token list shows them", err=True)
    raise typer.Exit(NO)


def _require_person(settings: Settings) -> None:
    """Require a person, because with an approver's token an agent could approve its own calls."""
    with open_gate(settings) as gate:
        require_person(gate.store, "have an approver's token")


def _facts(token: Token) -> dict[str, Any]:
    names = "name role instance namespaces created expires".split()
    return {**{name: getattr(token, name) for name in names}, "formerUntil": token.former_until}


def _hand_over(secret: str, token: Token, *, json: bool) -> None:
    """Print the secret alone on standard output, and what to know about it on standard error."""
    if json:
        show.json({**_facts(token), "token": secret})
        return
    where = f"in {clean(', '.join(token.namespaces), 300)}" if token.namespaces else "in all namespaces"
    whom = f" for {clean(token.instance)} alone" if token.instance else ""
    facts = [f"{token.name}: an {token.role.value}'s token{whom}, {where}."]
    if token.expires is not None:
        facts.append(f"It ends {clock(token.expires)}.")
    if token.former_until is not None:
        facts.append(f"The old one goes on until {clock(token.former_until)}.")
    facts.append('It is shown this once; a client sends it as "Authorization: Bearer ...".')
    typer.echo(" ".join(facts), err=True)
    sys.stdout.write(f"{secret}\n")
    sys.stdout.flush()
