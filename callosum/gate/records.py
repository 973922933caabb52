"""What the store and the journal hold, as the wire shows it: status, approvals, commitments and journal pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from callosum import wire
from callosum.errors import ConfigError
from callosum.gate.check import check_name, key_of
from callosum.model import (
    MAX_SUMMARY,
    NO_KEY,
    SECOND,
    Action,
    Commitment,
    Conflict,
    Farewell,
    Holding,
    Mode,
    RecentAction,
    StandingCommitment,
    State,
    Status,
)
from callosum.policy.commitments import lookup_keys
from callosum.policy.evidence import has_unknown_outcome
from callosum.policy.sentence import decided_by
from callosum.policy.summary import (
    journalled_call,
    shown,
    summary_of,
)
from callosum.redact import SecretDigests
from callosum.stores.base import Store

_SUMMARISED: Final = 100
"""Number of live actions, the newest, that are shown with a summary."""
_ENDED: Final = 5
"""Maximum number of ended sessions whose last answer is shown."""
_CONFLICTS: Final = tuple[Conflict, ...]


def approvals_of(
    store: Store, asked_for: wire.ApprovalsQuery, *, secrets: SecretDigests | None = None
) -> wire.Approvals:
    """Return the calls that wait for a person, oldest first, with what they would do.

    ``session`` is an actor as the journal names it; None means all.

    Raises:
        ConfigError: ``session`` is not a name.
    """
    session = asked_for.session
    if session is not None:
        check_name(session, "session")
        session = secrets.name(session) if secrets is not None else session
    asked = sorted(status_of(store, asked_for.namespace, None, ended=0).asked, key=attrgetter("id"))
    return wire.Approvals(tuple(_approval(store, one) for one in asked if session in (None, one.instance)))


def commitments_of(
    store: Store,
    namespace: str,
    key: str | None = None,
    session: str | None = None,
    *,
    secrets: SecretDigests | None = None,
) -> tuple[StandingCommitment, ...]:
    """Return the commitments that count, by session, first key and end.

    ``key`` selects those on that key, ``session`` those of an actor as the journal names it.

    Raises:
        ConfigError: ``session`` is not a name, or ``key`` is not a key.
    """
    if session is not None:
        check_name(session, "session")
        session = secrets.name(session) if secrets is not None else session
    keys = [key_of(key, secrets).name] if key is not None else None
    found = store.commitments(namespace, keys)
    told = [_standing(action) for action in found if session in (None, action.session)]
    return tuple(sorted(told, key=lambda one: (one.instance, one.context_keys[:1], one.until)))


def _standing(action: Action) -> StandingCommitment:
    made = action.content.commitment or Commitment()
    names = tuple(dict.fromkeys(key.name for key in lookup_keys(action) if key.mode is not Mode.READ))
    return StandingCommitment(
        id=action.id,
        instance=action.session,
        context_keys=names,
        side=made.side,
        decided=decided_by(action.tool, action.content.stance or made.side, names[0] if names else ""),
        tool=action.tool,
        at=action.started / SECOND,
        until=made.until / SECOND,
        owner=action.session.partition("/")[0] if made.left else action.session,
        what=made.what,
        to=made.to,
    )


def _approval(store: Store, asked: Holding) -> wire.Approval:
    # An action's id is the position of the entry that opened it, which is kept as long as the action.
    entry = next((one for one in store.entries(after=asked.id - 1, limit=1) if one.seq == asked.id), None)
    body = entry.body if entry is not None else {}
    return wire.Approval(
        id=asked.id,
        instance=asked.instance,
        tool=asked.tool,
        tier=asked.tier,
        context_key=asked.context_key,
        at=asked.at,
        expires=asked.expires,
        rule=entry.rule if entry is not None else "",
        params=body.get("params") or {},
        conflicts=msgspec.convert(body.get("conflicts", ()), _CONFLICTS),
        warning=body["warning"] + body.get("details", "") if "warning" in body else None,
        summary=asked.summary,
        purpose=journalled_call(body).purpose,
    )


def page_of(store: Store, asked: wire.JournalQuery, *, secrets: SecretDigests | None = None) -> wire.JournalPage:
    """Return a page of the journal after ``cursor`` ("" is the beginning); ``namespace`` None means all namespaces.

    Raises:
        ConfigError: A field cannot be used; the error names it.
    """
    session = asked.session
    for value, at in ((asked.namespace, "namespace"), (session, "session")):
        if value is not None:
            check_name(value, at)
    session = secrets.name(session) if session and secrets is not None else session
    key = key_of(asked.context_key, secrets).name if asked.context_key is not None else None
    if not 1 <= asked.limit <= wire.MAX_PAGE:
        raise ConfigError(f"expected 1 to {wire.MAX_PAGE}", at="limit")
    after = _position(asked.cursor)
    found = store.entries(
        after=after, limit=asked.limit, namespace=asked.namespace, session=session, key=key, newest=asked.newest
    )
    return wire.JournalPage(tuple(found), f"j{found[-1].seq if found else after}")


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    if not re.fullmatch(r"j(?:0|[1-9][0-9]{0,18})", cursor) or int(cursor[1:]) >= 2**63:
        raise ConfigError("no cursor of this journal", at="cursor")
    return int(cursor[1:])


def status_of(store: Store, namespace: str, key: str | None, *, ended: int = _ENDED) -> Status:
    """Return what the store shows of live leases and recent actions, of one key or of all.

    ``ended`` is the number of ended sessions that are shown with their last answers; with a key none are shown.
    """
    states = (State.OPEN, State.QUEUED, State.ASKED, State.UNKNOWN)
    actions = store.live(namespace, states, key)
    recent = store.recent(namespace, key)
    newest = {action.id for action in (*actions[-_SUMMARISED:], *recent) if not action.lock}
    bodies = store.bodies(namespace, sorted(newest)) if newest else {}
    live = [_holding(action, bodies) for action in actions if action.approved >= 0]  # a refused question does not wait
    moment = store.now()
    now = moment / SECOND
    until = store.observing() / SECOND
    return Status(
        locks=tuple(h for h in live if h.state is State.OPEN and h.expires > now),
        recent_actions=tuple(_recent(action, moment, bodies) for action in recent),
        unknown=tuple(
            replace(h, state=State.UNKNOWN)
            for h in live
            if h.tier and (h.state is State.UNKNOWN or (h.state is State.OPEN and h.expires <= now))
        ),
        waiting=tuple(h for h in live if h.state is State.QUEUED and h.expires > now),
        asked=tuple(h for h in live if h.state is State.ASKED and h.expires > now and not h.approved),
        observing_until=until if until > now else None,
        farewells=tuple(
            [
                Farewell(entry.session, entry.seq / SECOND, shown(entry.body["summary"], MAX_SUMMARY - 2))
                for entry in (store.farewells(namespace, ended) if ended and key is None else ())
            ]
        ),
    )


def _key_of(action: Action) -> str | None:
    return next((key.name for key in action.keys if key.name[:1] != NO_KEY), None)


def _holding(action: Action, bodies: Mapping[int, bytes]) -> Holding:
    key = _key_of(action)
    return Holding(
        context_key=key,
        instance=action.session,
        tool=action.tool,
        tier=action.tier,
        state=action.state,
        id=action.id,
        token=action.id,
        at=action.started / SECOND,
        expires=(max(action.expires, action.limit) if action.alive else action.expires) / SECOND
        if action.alive is not False
        else 0.0,
        lock=action.lock,
        approved=action.approved > 0,
        summary=summary_of(journalled_call(bodies.get(action.id, b"")), key or ""),
    )


def _recent(action: Action, now: int, bodies: Mapping[int, bytes]) -> RecentAction:
    key = _key_of(action)
    return RecentAction(
        context_key=key,
        instance=action.session,
        tool=action.tool,
        tier=action.tier,
        state=State.UNKNOWN if has_unknown_outcome(action, now) else action.state,
        id=action.id,
        at=(action.ended or action.started) / SECOND,
        reported=bool(action.ended),
        summary=summary_of(journalled_call(bodies.get(action.id, b"")), key or ""),
    )
