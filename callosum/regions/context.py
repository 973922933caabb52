"""Prefrontal: builds a session's brief, and classifies the intent of an input.

The parts of a brief, at the moment it is requested::

    which keys matter      named by the host, in the prompt, recently used by the session, files in its folder
    who else uses them     Store.nearby: other sessions' live actions and newest actions there
    what has changed       actions later than the session's last read of the key, or its last action there
    unknown outcomes       of tier 4, of any session on any key, before everything else
    what was finished      the last answers of sessions that ended
    what else is running   its own open calls, others' leases elsewhere, notable actions since its last call

Building a brief only reads. No mark moves, so a call that would be warned before it is warned after it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from callosum.brief import Brief, Section, brief_of
from callosum.characters import escaped
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ContextBuilt, CorpusEvent, InputClassified, InputReceived, InputRouted, LlmResponse
from callosum.errors import ConfigError
from callosum.gate.check import check_name, key_of
from callosum.merging.merge_store import MergeRecord, merge_sentence
from callosum.model import DAY, DEFAULT_NAMESPACE, HOUR, NO_KEY, SECOND, Action, Commitment, Entry, State, Tier
from callosum.policy.commitments import lookup_keys
from callosum.policy.evidence import change_moment, has_lapsed, has_unknown_outcome, holds_lease, may_be_running
from callosum.policy.sentence import ago, ask_to_resolve, decided_by, name, since
from callosum.policy.summary import NOTHING_JOURNALLED, journalled_call, shown, summary_of
from callosum.redact import SecretDigests, quote, redact_text
from callosum.rules.intent import LOOKED_AT, intent_of
from callosum.rules.keys import addresses, named, spell
from callosum.stores.base import NearbyAction, Store
from callosum.wire import MAX_KEYS, MAX_PATH

_OWN_KEYS: Final = 32
"""Most of the session's own keys that are looked up."""
_PROMPT_KEYS: Final = 8
_MOST: Final = 12
"""Most lines of a section about the session's own keys."""
_ELSEWHERE: Final = 6
_UNDER_WAY: Final = 20
"""Most live actions that are read, the session's own and elsewhere."""
_HIGH, _NOTABLE = 3, 2
_WITHIN: Final = 4_000
"""Journal entries that are searched backwards for notable actions elsewhere."""
_ENDED: Final = 3
"""Most ended sessions whose last answer is shown."""
_NAMED: Final = 3
"""Most keys that are named for one session's actions with one tool."""
_WAITING: Final = 1_000
"""Most sessions whose input still waits for a model's answer."""
_GENERATIONS: Final = 8
_TOLD: Final = 128
"""Most actions whose summaries are read, the newest."""
_SUMMARY: Final = 100
_PURPOSE: Final = 80
"""Most characters of a summary and of a purpose."""

_PATH: Final = re.compile(r"(?<![\w/:.+@~-])(?:~|\.{1,2})?/?[\w.+@-]+(?:/[\w.+@-]+)+/?")
_CHANNEL: Final = re.compile(r"(?<!\S)#[a-z][\w-]{1,79}", re.IGNORECASE)

T = TypeVar("T")
_Who = tuple[str | None, str | None]
"""Namespace and session, as an event names them."""


class Prefrontal:
    """Build briefs from a store, and classify the inputs reported on the corpus.

    Emits ``context.built`` for each brief. For each ``input.received`` it emits ``input.classified``, and
    ``input.routed`` when the next ``llm.response`` of that session shows which model took the input, unless the host
    reported it itself. Methods may be called from any thread. ``close`` ends the subscriptions.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        store: Store,
        secrets: SecretDigests | None = None,
        shares: bool = False,
        merges: Callable[[], Sequence[MergeRecord]] = tuple,
    ) -> None:
        """Create the region.

        ``secrets`` replaces secrets in keys and names, as the gate of this store does. ``shares``: sessions also see
        the purposes of sessions of other instances. ``merges`` returns the writes that ran merged, newest first.
        """
        self._merges = merges
        self._shares = shares
        self._corpus = corpus
        self._store = store
        self._secrets = secrets
        self._waiting: OrderedDict[_Who, str | None] = OrderedDict()
        self._guard = threading.RLock()
        self._offs = (
            corpus.on(InputReceived, self._classify),
            corpus.on(InputRouted, self._routed),
            corpus.on(LlmResponse, self._route),
        )

    def close(self) -> None:
        """End the subscriptions. Idempotent."""
        for off in self._offs:
            off()

    # --- the brief -------------------------------------------------------------------------------

    def brief(
        self,
        instance: str,
        session: str | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        keys: Sequence[str] = (),
        cwd: str | None = None,
        prompt: str | None = None,
        forgot: bool = False,
    ) -> Brief:
        """Return what other sessions are doing and did recently, as far as it matters to this session.

        ``keys`` are context keys that the host knows to matter, at most ``MAX_KEYS``; a key that ends in ``/`` stands
        for everything below it. ``cwd`` is the session's folder. Addresses, paths and channels in ``prompt`` count as
        keys. ``forgot``: the session's context was compacted, so its own open actions and commitments come first. The
        brief is not cut: ``RAS`` does that. It is empty if there is nothing to report.

        Raises ``ConfigError`` with the place for invalid input, ``StoreUnavailable`` as the store does.
        """
        check_name(instance, "instance")
        if session is not None:
            check_name(session, "session")
        check_name(namespace, "namespace")
        folder = _folder(cwd)
        named = [*_given(keys, cwd), *_mentioned(prompt, cwd)]
        if self._secrets is not None:
            folder, named = list(map(self._secrets.key, folder)), list(map(self._secrets.key, named))
            instance, session = self._secrets.name(instance), self._secrets.name(session) if session else session
        actor = f"{instance}/{session}" if session else instance
        view = _BriefView(self._store, namespace, actor, shares=self._shares, merges=self._merges)
        brief = view.brief(named, folder, forgot=forgot)
        self._corpus.emit(ContextBuilt(brief.tokens, len(brief.sections), instance=actor, namespace=namespace))
        return brief

    # --- inputs ----------------------------------------------------------------------------------

    def _classify(self, event: InputReceived) -> None:
        session = _who(event)
        with self._guard:
            self._waiting[session] = event.cause
            self._waiting.move_to_end(session)
            while len(self._waiting) > _WAITING:
                self._waiting.popitem(last=False)
        intent, confidence = intent_of(event.content)
        self._corpus.emit(
            InputClassified(intent, confidence, instance=event.instance, namespace=event.namespace, cause=event.cause)
        )

    def _routed(self, event: InputRouted) -> None:
        """Drop the waiting input: the host has reported the model itself."""
        with self._guard:
            self._waiting.pop(_who(event), None)

    def _route(self, event: LlmResponse) -> None:
        session = _who(event)
        with self._guard:
            if session not in self._waiting:
                return
            cause = self._waiting.pop(session)
        self._corpus.emit(
            InputRouted(event.provider, event.model, instance=event.instance, namespace=event.namespace, cause=cause)
        )


def _who(event: CorpusEvent) -> _Who:
    return event.namespace, event.instance


# --- which keys ---------------------------------------------------------------------------------------


def _given(keys: Sequence[str], cwd: str | None) -> list[str]:
    """Return the keys that the host names, in canonical spelling."""
    if len(keys) > MAX_KEYS:
        raise ConfigError(f"expected at most {MAX_KEYS}, got {len(keys)}", at="key")
    spelled: list[str] = []
    for key in keys:
        try:
            key_of(key)
        except ConfigError as error:
            raise ConfigError(error.message, at="key") from None
        spelled += named(key, cwd) or (key,)
    return spelled


def _folder(cwd: str | None) -> list[str]:
    """Return the tree of the session's folder."""
    if cwd is None:
        return []
    if type(cwd) is not str or not 0 < len(cwd) <= MAX_PATH:
        raise ConfigError(f"expected a path of 1 to {MAX_PATH} characters", at="cwd")
    return list(spell("file:", cwd, tree=True))


def _mentioned(prompt: str | None, cwd: str | None) -> list[str]:
    """Return the addresses, paths and channels in a prompt as keys.

    Some may name nothing; their lookup finds nothing.
    """
    if not prompt:
        return []
    text = prompt[:LOOKED_AT]
    mentioned = [key for address in addresses(text) for key in spell("email:", address)]
    mentioned += [key for path in _PATH.findall(text) for key in spell("file:", path, cwd)]
    mentioned += [key for channel in _CHANNEL.findall(text) for key in spell("channel:", channel)]
    return list(dict.fromkeys(mentioned))[:_PROMPT_KEYS]


def _shown_keys(action: Action) -> list[str]:
    return [key.name for key in action.keys if not key.name.startswith(NO_KEY)]


# --- one view of the store, as lines -------------------------------------------------------------------


class _ActionGroup(NamedTuple):
    """One session's actions with one tool: keys (newest first), age of the last action, id of the newest."""

    session: str
    tool: str
    keys: dict[str, None]
    age: float
    newest: int


class _RunningGroup(NamedTuple):
    """What one session is doing with one tool on one key: the newest of such calls, and their number."""

    action: Action
    calls: int


class _BriefView:
    """The view that one session has of the store now. Ages are in seconds."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        actor: str,
        *,
        shares: bool = False,
        merges: Callable[[], Sequence[MergeRecord]] = tuple,
    ) -> None:
        self._merges = merges
        self._store = store
        self._shares = shares
        self._bodies: Mapping[int, bytes] = {}
        self._namespace = namespace
        self._now = store.now()
        self._mine = (actor, *self._chain(actor, "continues"))
        self._ancestors = self._chain(actor, "parent")
        self._names: dict[str, str] = {}
        self._told: set[int] = set()
        self._held: set[tuple[str, str, str]] = set()
        """Session, tool and key of the running actions that the brief has listed."""
        self._left_out = 0

    def brief(self, named: Sequence[str], folder: Sequence[str], *, forgot: bool = False) -> Brief:
        """Return the whole brief. ``named`` keys come before the session's own keys, the ``folder`` after them."""
        own_actions = self._store.touched(self._namespace, self._mine)
        touched = dict.fromkeys(key for action in own_actions for key in _shown_keys(action))
        keys = dict.fromkeys([*named, *list(touched)[:_OWN_KEYS], *folder])
        nearby = self._store.nearby(self._namespace, self._mine, list(keys)) if keys else []
        under_way = self._store.underway(self._namespace, self._mine, _HIGH, _UNDER_WAY)
        recent = self._store.recent(self._namespace, floor=_NOTABLE, besides=self._mine, within=_WITHIN)
        described = {
            action.id
            for action in (*(neighbour.action for neighbour in nearby), *under_way, *recent, *own_actions)
            if not action.lock
        }
        self._bodies = self._store.bodies(self._namespace, sorted(described)[-_TOLD:]) if described else {}
        lately = max(self._now - HOUR, own_actions[0].started if own_actions else 0)
        own_by_id = {action.id: action for action in (*under_way, *own_actions) if action.session in self._mine}
        others = (action for action in under_way if action.session not in self._mine)
        here, elsewhere = "where this session works", "elsewhere"
        own_first = (
            (
                self._section(
                    "This session's open actions from before the compaction",
                    self._open(own_by_id.values()),
                    self._own_line,
                ),
                self._section("This session's commitments", self._own_commitments(), self._own_commitment),
            )
            if forgot
            else ()
        )
        sections = (  # an action is listed in the first section that has it
            *own_first,
            self._section(
                "Unknown outcomes of actions that cannot be undone", self._gravest(under_way), self._unsettled
            ),
            self._section(
                f"Running now, {here}", self._in_hand(neighbour.action for neighbour in nearby), self._holding
            ),
            self._section(f"Unknown outcomes, {here}", self._unknown(nearby), self._lost),
            self._section(f"Commitments of other sessions, {here}", self._committed(keys), self._commitment),
            self._section("Writes merged with this session's changes", self._merged(nearby), self._merge),
            self._section("Done by others since this session last read", self._done(nearby), self._acts),
            self._section("Sessions that ended recently", self._ended(own_actions), self._farewell, _ENDED),
            self._section("This session's open actions", self._own(own_by_id.values()), self._own_line),
            self._section(f"Running {elsewhere}", self._in_hand(others), self._holding, _ELSEWHERE),
            self._section(f"Done {elsewhere} recently", self._notable(recent, lately), self._acts, _ELSEWHERE),
        )
        return brief_of(sections, self._left_out)

    def _section(self, title: str, items: Sequence[T], line_of: Callable[[T], str], most: int = _MOST) -> Section:
        self._left_out += max(0, len(items) - most)
        return Section(title, tuple(map(line_of, items[:most])))

    # --- sections ---

    def _in_hand(self, actions: Iterable[Action]) -> list[_RunningGroup]:
        """Return leases, queue entries, calls of lower tiers that may still be running, and questions to a person."""
        groups: dict[tuple[object, ...], _RunningGroup] = {}
        listed = {key for _, _, key in self._held if key}
        for action in actions:
            key = _where(action)
            if key in listed or not (self._is_held(action) or self._waits(action)) or not self._is_news(action):
                continue
            self._held.add((action.session, action.tool, key))
            sort = (action.session, action.tool, key, action.state, action.lock, action.approved > 0)
            newest, calls = groups.get(sort, (action, 0))
            groups[sort] = _RunningGroup(max(newest, action, key=attrgetter("started")), calls + 1)
        return list(groups.values())

    def _gravest(self, under_way: Iterable[Action]) -> list[Action]:
        """Return the ``unknown`` actions of tier 4 of all sessions, newest first."""
        unknown = self._store.live(self._namespace, (State.UNKNOWN,))
        lost = [
            action
            for action in (*under_way, *unknown)
            if action.tier >= Tier.CRITICAL and self._is_lost(action) and self._is_news(action)
        ]
        return sorted(lost, key=attrgetter("started"), reverse=True)

    def _unknown(self, nearby: Iterable[NearbyAction]) -> list[Action]:
        return [
            neighbour.action
            for neighbour in nearby
            if self._is_lost(neighbour.action) and self._is_news(neighbour.action)
        ]

    def _done(self, nearby: Iterable[NearbyAction]) -> list[_ActionGroup]:
        """Return finished actions that are new to the session. On keys it never read, only the last day counts."""
        fresh = [
            (neighbour.action, neighbour.action.key)
            for neighbour in nearby
            if neighbour.action.state is State.DONE
            and change_moment(neighbour.action, self._now) > (neighbour.seen or self._now - DAY)
            and not self._is_in_hand(neighbour.action)
            and self._is_news(neighbour.action)
        ]
        return self._together(fresh)

    def _merged(self, nearby: Iterable[NearbyAction]) -> list[MergeRecord]:
        """Return writes that ran merged with this session's change, if it has not read the file since."""
        looked: dict[str, int] = {}
        for neighbour in nearby:
            if neighbour.action.key.startswith("file:"):
                looked[neighbour.action.key] = max(neighbour.seen, looked.get(neighbour.action.key, 0))
        if not looked:
            return []
        merges = [
            merged
            for merged in self._merges()
            if merged.namespace == self._namespace
            and not set(self._mine).isdisjoint(merged.others)
            and merged.id > looked.get(f"file:{merged.path}", merged.id)
        ]
        self._told.update(merged.id for merged in merges)
        return merges

    def _merge(self, merged: MergeRecord) -> str:
        return merge_sentence(merged, next(session for session in self._mine if session in merged.others))

    def _committed(self, keys: Collection[str]) -> list[Action]:
        """Return other sessions' commitments on these keys, newest first."""
        commitments = self._store.commitments(self._namespace, list(keys)) if keys else []
        return [
            replace(action, key=next((key.name for key in lookup_keys(action) if key.name in keys), _first(action)))
            for action in reversed(commitments)
            if action.session not in self._mine and self._is_news(action)
        ]

    def _own(self, actions: Iterable[Action]) -> list[Action]:
        return [
            action
            for action in sorted(actions, key=lambda action: -action.id)
            if (self._waits(action) or holds_lease(action, self._now) or self._is_lost(action))
            and self._is_news(action)
        ]

    def _open(self, actions: Iterable[Action]) -> list[Action]:
        """Return the session's own open actions, including calls of lower tiers that may still be running."""
        running = [action for action in actions if self._is_held(action) and self._is_news(action)]
        return sorted([*self._own(actions), *running], key=lambda action: -action.id)

    def _own_commitments(self) -> list[Action]:
        commitments = self._store.commitments(self._namespace)
        return [replace(action, key=_first(action)) for action in reversed(commitments) if action.session in self._mine]

    def _notable(self, actions: Iterable[Action], lately: int) -> list[_ActionGroup]:
        fresh = [
            (action, _first(action))
            for action in actions
            if action.state is State.DONE
            and not action.lock
            and change_moment(action, self._now) > lately
            and not self._is_in_hand(action)
            and self._is_news(action)
        ]
        return self._together(fresh)

    def _ended(self, own_actions: Sequence[Action]) -> list[Entry]:
        """Return the sessions that ended since this one last acted; for a new session, those of the last day."""
        since = own_actions[0].started if own_actions else self._now - DAY
        farewells = self._store.farewells(self._namespace)
        newest = {
            farewell.session: farewell
            for farewell in reversed(farewells)
            if farewell.seq > since and farewell.session not in self._mine
        }
        return sorted(newest.values(), key=lambda farewell: -farewell.seq)

    def _together(self, acts: Iterable[tuple[Action, str]]) -> list[_ActionGroup]:
        """Return the actions grouped by session and tool."""
        groups: dict[tuple[str, str], _ActionGroup] = {}
        for action, key in acts:
            age = (self._now - (action.ended or action.started)) / SECOND
            session_and_tool = (action.session, action.tool)
            group = groups.get(session_and_tool) or _ActionGroup(*session_and_tool, {}, age, action.id)
            groups[session_and_tool] = group._replace(age=min(group.age, age))
            if key:
                group.keys[key] = None
        return list(groups.values())

    def _is_held(self, action: Action) -> bool:
        return holds_lease(action, self._now) or (action.state is State.DONE and may_be_running(action, self._now))

    def _is_in_hand(self, action: Action) -> bool:
        """Return True if the brief has already listed its session as working on this key."""
        key = _where(action)
        return bool(key) and (action.session, action.tool, key) in self._held

    def _is_lost(self, action: Action) -> bool:
        return action.tier > Tier.NONE and has_unknown_outcome(action, self._now) and not action.lock

    def _waits(self, action: Action) -> bool:
        """Return True if it is a question to a person that is open, or was approved."""
        return action.state is State.ASKED and action.approved >= 0 and not has_lapsed(action, self._now)

    def _is_news(self, action: Action) -> bool:
        """Return True if the brief has not listed the action yet, and mark it as listed."""
        if action.id in self._told:
            return False
        self._told.add(action.id)
        return True

    # --- lines ---

    def _holding(self, held: _RunningGroup) -> str:
        action, calls = held
        session, key, tool = self._who(action.session), _on(_where(action)), name(action.tool)
        begun, summary = self._since(action.started), self._what(action.id, action.session, _where(action))
        if calls > 1:
            tool, summary = f"{tool}, {calls} calls", ""
        if action.state is State.ASKED:
            waits = "a person approved it" if action.approved else "waits for a person"
            return f"{session} wants to act{key} ({tool}, {begun}) and {waits}{summary}."
        if action.state is State.QUEUED:
            return f"{session} waits in the queue{key} ({tool}, {begun}){summary}."
        if action.state is State.DONE:
            return f"{session} is working{key} ({tool}, begun {begun}){summary}."
        until = max(action.expires, action.limit) if action.alive else action.expires
        lease_left = f"begun {begun}, lease for {ago((until - self._now) / SECOND)} more"
        return (
            f"{session} holds a lock{key} ({lease_left})."
            if action.lock
            else f"{session} is working{key} ({tool}, {lease_left}){summary}."
        )

    def _own_commitment(self, action: Action) -> str:
        return self._commitment(action, "This session")

    def _commitment(self, action: Action, session: str = "") -> str:
        commitment = action.content.commitment or Commitment()
        key = action.key
        did = decided_by(action.tool, action.content.stance or commitment.side, key) or "took a side"
        quoted = f", {quote(commitment.what, 120)}" if commitment.what else ""
        remaining = ago((commitment.until - self._now) / SECOND)
        return (
            f"{session or self._who(action.session)} {did} {_key(key)} {self._since(action.started)} "
            f"({name(action.tool)}){quoted}; it holds for {remaining} more."
        )

    def _lost(self, action: Action) -> str:
        return (
            f"An action of {self._who(action.session)}{_on(action.key)} began {self._since(action.started)} "
            f"({name(action.tool)}) and its outcome was never reported: it may or may not have happened."
            f"{self._it_was(action)}"
        )

    def _unsettled(self, action: Action) -> str:
        if action.session not in self._mine:
            return f"{self._lost(action)} To settle it, {ask_to_resolve(action.id)}."
        return f"{self._own_line(action)} Check whether it did, then {ask_to_resolve(action.id)}."

    def _acts(self, acts: _ActionGroup) -> str:
        names = ", ".join(_key(key) for key in list(acts.keys)[:_NAMED])
        more = f" and {len(acts.keys) - _NAMED} more" if len(acts.keys) > _NAMED else ""
        on = f" on {names}{more}" if names else ""
        lead = "; the last was " if len(acts.keys) > 1 else ": "
        summary = self._what(acts.newest, acts.session, next(iter(acts.keys), ""), lead)
        return f"{self._who(acts.session)} acted{on} {since(acts.age)} ({name(acts.tool)}){summary}."

    def _farewell(self, entry: Entry) -> str:
        return f"{self._who(entry.session)} ended {self._since(entry.seq)}: {shown(entry.body['summary'], _SUMMARY)}."

    def _own_line(self, action: Action) -> str:
        where = f"{_on(_first(action))} ({name(action.tool)}, {self._since(action.started)})"
        summary = self._what(action.id, action.session, _first(action))
        if action.state is State.ASKED and action.approved:
            return f"A person approved a call{where}: it runs when it is repeated.{self._it_was(action)}"
        if action.state is State.ASKED:
            return f"A call{where} waits for a person{summary}."
        if self._is_lost(action):
            return f"An action{where} has no known outcome: it may or may not have happened.{self._it_was(action)}"
        if action.state is State.QUEUED:
            return f"A call{where} waits in the queue{summary}."
        return f"A lock{where} is still held." if action.lock else f"An action{where} is still open{summary}."

    def _what(self, id: int, session: str, key: str, lead: str = ": ") -> str:
        """Return what an action did and the purpose of its session, as far as known."""
        kept = journalled_call(self._bodies[id]) if id in self._bodies else NOTHING_JOURNALLED
        summary = summary_of(kept, key, _SUMMARY)
        may_share = self._shares or _instance(session) == _instance(self._mine[0])
        asked = f" (asked: {shown(kept.purpose, _PURPOSE)})" if kept.purpose and may_share else ""
        return f"{lead}{summary}{asked}" if summary else asked

    def _it_was(self, action: Action) -> str:
        summary = self._what(action.id, action.session, _where(action)).removeprefix(":").strip()
        return f" It was {summary}." if summary else ""

    def _since(self, at: int) -> str:
        return since((self._now - at) / SECOND)

    # --- sessions ---

    def _chain(self, session: str, link: str) -> tuple[str, ...]:
        """Return the sessions that this one continues or descends from, nearest first."""
        chain: list[str] = []
        following = session
        while len(chain) < _GENERATIONS:
            following = getattr(self._store.kin(self._namespace, following), link)
            if not following or following in chain or following == session:
                break
            chain.append(following)
        return tuple(chain)

    def _who(self, session: str) -> str:
        """Return a session's name, with its relation to this session."""
        label = self._names.get(session)
        if label is None:
            role = ""
            if session in self._ancestors:
                role = "your parent " if session == self._ancestors[0] else "your ancestor "
            elif self._store.kin(self._namespace, session).parent in self._mine:
                role = "your sub-agent "
            label = self._names[session] = role + name(session)
        return label


def _first(action: Action) -> str:
    return next(iter(_shown_keys(action)), "")


def _where(action: Action) -> str:
    """Return the key through which the action was found, else its first key; "" if it has none."""
    return _first(action) if not action.key or action.key.startswith(NO_KEY) else action.key


def _instance(session: str) -> str:
    return session.partition("/")[0]


def _on(key: str) -> str:
    return f" on {_key(key)}" if key and not key.startswith(NO_KEY) else ""


def _key(key: str) -> str:
    return quote(escaped(redact_text(key)), 120)
