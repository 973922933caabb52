"""Read actions outside transactions: for status, briefs and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from callosum.model import Action, Entry, Key, Scope, State
from callosum.policy.commitments import COMMITTED, is_in_force
from callosum.stores.base import SEARCHED_ENTRIES, Ancestry, NearbyAction, Probe
from callosum.stores.keys import covering
from callosum.stores.neighbours import around
from callosum.stores.records import LIVE, Record, is_farewell, probed
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.records import KeyKnowledge, encode, entry_of, known_of, record_of
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.transactions import LATEST_SHOWN, READ_VIEW
from callosum.stores.redis.view import RedisView, parse_view_data, scope_fields

PAGE: Final = 500
"""Number of rows fetched at a time."""
_MAX_LIVE: Final = 250


class RedisReads:
    """Implement the methods of ``Store`` with the same names."""

    def __init__(self, spaces: Namespaces, probe: Probe) -> None:
        self._spaces = spaces
        self._link = spaces.link
        self._probe = probe

    def records(self, space: NamespaceKeys, ids: Sequence[bytes]) -> dict[int, Record]:
        """Return the stored records of these actions and refused calls; missing ones are left out."""
        if not ids:
            return {}
        blobs = self._link.client.hmget(space.key("a"), ids)
        return {
            int(id): record_of(int(id), space.namespace, blob)
            for id, blob in zip(ids, blobs, strict=True)
            if blob is not None
        }

    def _opened_of(self, space: NamespaceKeys, ids: Sequence[bytes]) -> list[Action]:
        """Return these actions in this order, without refused calls."""
        return [probed(record.action, self._probe) for record in self.records(space, ids).values() if record.opened]

    def action(self, namespace: str, id: int) -> Action | None:
        space = self._spaces.of(namespace)
        with self._link.explained():
            for record in self.records(space, [f"{id:016d}".encode()]).values():
                return probed(record.action, self._probe)
        return None

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        wanted = LIVE.intersection(states)
        actions: list[Action] = []
        with self._link.explained():
            for space in self._spaces.all(namespace):
                ids = self._link.client.zrange(space.key("open"), 0, -1)
                actions += [
                    action
                    for action in self._opened_of(space, ids)
                    if action.state in wanted and (key is None or any(own.name == key for own in action.keys))
                ]
        return sorted(actions, key=lambda action: action.id)

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        def wanted(action: Action) -> bool:
            return (
                action.tier >= floor
                and action.session not in besides
                and action.state not in (State.QUEUED, State.ASKED)
                and (key is None or (bool(action.keys) and action.keys[0].name == key))
            )

        with self._link.explained():
            space = self._spaces.of(namespace)
            return self._newest(space, space.key("ids"), self._floor(space, within), limit, wanted)

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        with self._link.explained():
            space = self._spaces.of(namespace)
            since = self._floor(space, SEARCHED_ENTRIES)
            actions = []
            for session in dict.fromkeys(sessions):
                ids = self._link.client.zrevrangebyscore(space.key("t", session), "+inf", since, 0, limit)
                actions += [probed(record.action, self._probe) for record in self.records(space, ids).values()]
        return sorted(actions, key=lambda action: -action.id)[:limit]

    def _newest(
        self, space: NamespaceKeys, among: str, since: int, limit: int, wanted: Callable[[Action], bool]
    ) -> list[Action]:
        actions: list[Action] = []
        start = 0
        while len(actions) < limit:
            ids = self._link.client.zrevrangebyscore(among, "+inf", since, start, PAGE)
            actions += [action for action in self._opened_of(space, ids) if wanted(action)]
            start += len(ids)
            if len(ids) < PAGE:
                break
        return actions[:limit]

    def _floor(self, space: NamespaceKeys, within: int) -> int:
        """Return the moment of the ``within``-th newest entry, or of a slightly newer one; 0 if there are fewer."""
        client = self._link.client
        if client.xlen(space.key("log")) <= within:
            return 0
        if within <= PAGE:
            rows = client.xrevrange(space.key("log"), count=within)
            return int(rows[-1][0].partition(b"-")[0])
        count = int(client.get(space.key("count")) or 0)
        marks = client.zrangebyscore(space.key("stones"), count - within, "+inf", 0, 1, withscores=True)
        return int(marks[0][0]) if marks else 0

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[NearbyAction]:
        space = self._spaces.of(namespace)
        own_sessions = tuple(sessions)
        scope = Scope(
            namespace,
            own_sessions[0] if own_sessions else "",
            tuple(Key(key) for key in dict.fromkeys(keys)),
            live=True,
        )
        with self._link.explained():
            request = encode((space.tag, self._spaces.now_or_empty(), LATEST_SHOWN, [scope_fields(scope)]))
            _, _, answer = self._link.run(READ_VIEW, self._spaces.clock_of(space), request)
            fetched = RedisView(parse_view_data(answer, namespace), scope, 0, self._probe).fetched()
            actions = around(fetched, (key.name for key in scope.keys), own_sessions)
            last_seen = self._last_seen(space, own_sessions, {action.key for action in actions})
        result = [NearbyAction(action, last_seen.get(action.key, 0)) for action in actions]
        return sorted(result, key=lambda near: -(near.action.ended or near.action.started))

    def _last_seen(self, space: NamespaceKeys, sessions: Sequence[str], keys: Iterable[str]) -> dict[str, int]:
        """Return, for each key, when one of these sessions last read it or acted on it, directly or through a tree."""
        covers = {key: covering(key) for key in keys}
        names = sorted({name for group in covers.values() for name in group})
        if not (names and sessions):
            return {}
        with self._link.client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(space.key("m", name), list(sessions))
            answers = pipe.execute()
        seen_at: dict[str, int] = {}
        for name, blobs in zip(names, answers, strict=True):
            knowledge = [known_of(blob) for blob in blobs if blob is not None]
            seen_at[name] = max((_seen_at(key_knowledge) for key_knowledge in knowledge), default=0)
        return {key: max(seen_at[name] for name in group) for key, group in covers.items()}

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        with self._link.explained():
            space = self._spaces.of(namespace)
            ids = self._link.client.zrevrange(space.key("open"), 0, _MAX_LIVE - 1)
            return [
                action
                for action in self._opened_of(space, ids)
                if action.session in sessions or (action.tier >= floor and action.state in (State.OPEN, State.QUEUED))
            ][:limit]

    def commitments(self, namespace: str | None, now: int, keys: Sequence[str] | None = None) -> list[Action]:
        client = self._link.client
        actions: dict[int, Action] = {}
        with self._link.explained():
            spaces = self._spaces.all() if namespace is None else [self._spaces.of(namespace)]
            for space in spaces:
                prefix = f"{COMMITTED.hex()}:".encode()
                if keys is None:
                    fingerprints = client.zrangebyscore(space.key("prints"), now, "+inf")
                    members = [fingerprint.partition(b"\0")[2] for fingerprint in fingerprints]
                else:
                    ends = b"[" + prefix, b"(" + prefix[:-1] + b";"
                    members = [member for key in keys for member in client.zrangebylex(space.key("p", key), *ends)]
                ids = {member.split(b":", 2)[1] for member in members if member.startswith(prefix)}
                for id, record in self.records(space, sorted(ids)).items():
                    action = probed(record.action, self._probe)
                    if is_in_force(action, now):
                        actions[id] = action
        return [actions[id] for id in sorted(actions)]

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        """Return farewells among the newest ``PAGE`` entries; no more, because each is transferred to be examined."""
        space = self._spaces.of(namespace)
        with self._link.explained():
            rows = self._link.client.xrevrange(space.key("log"), count=PAGE)
        return [entry for entry in (entry_of(id, fields) for id, fields in rows) if is_farewell(entry)][:limit]

    def kin(self, namespace: str, session: str) -> Ancestry:
        with self._link.explained():
            names = self._link.client.hmget(self._spaces.of(namespace).key("s", session), ["parent", "continues"])
        return Ancestry(*[(name or b"").decode() for name in names])


# --- Helpers --------------------------------------------------------------------------------------


def _seen_at(knowledge: KeyKnowledge) -> int:
    return max(knowledge.read, int(knowledge.actions[0].id) if knowledge.actions else 0)
