"""``callosum commitments``: the sides that sessions have taken and that still count."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callosum.cli import show
from callosum.cli.options import InNamespace, Json, exists, option
from callosum.model import StandingCommitment

if TYPE_CHECKING:
    pass


Key = Annotated[
    str | None, typer.Argument(metavar="[KEY]", help="Only commitments on this context key.", show_default=False)
]
Session = Annotated[str | None, option("--session", "NAME", "Only commitments of this session (instance/session).")]
_SHOWN_KEYS: Final = 2


def commitments(settings: InNamespace, key: Key = None, session: Session = None, json: Json = False) -> bool:
    """List the commitments that count: session, key and end; exit code 1 if there is none.

    A commitment is a side taken on an event, a booking, an order or a slot, or
    one that a call declared. It counts until it is over, until a contrary
    action went through, or for 30 days.
    """
    from callosum.gate.records import commitments_of
    from callosum.redact import SecretDigests
    from callosum.rulebook import kept_secret
    from callosum.stores.opening import open_store

    found: tuple[StandingCommitment, ...] = ()
    if exists(settings):
        with closing(open_store(settings)) as store:
            secrets = SecretDigests(kept_secret(settings.state))
            found = commitments_of(store, settings.namespace, key, session, secrets=secrets)
    if json:
        show.json(found)
    elif found:
        columns = ("session", "did:40", "<since", "<until", "key", "what")
        rows = []
        for one in found:
            more = len(one.context_keys) - _SHOWN_KEYS
            keys = ", ".join(one.context_keys[:_SHOWN_KEYS]) + (f" and {more} more" if more > 0 else "")
            owner = "" if one.owner == one.instance else f" (ended; {one.owner} owns it)"
            what = f"{one.what} (to {one.to})" if one.what and one.to else one.what or one.to
            rows.append((one.instance + owner, one.decided or one.side, one.at, one.until, keys, what))
        show.put(show.table("Commitments", columns, rows, note="a contrary call of others is paused"))
    else:
        show.line("No commitment" + (" on this key." if key else "."))
    return bool(found)
