"""Checks of the gate's input: every error names the field at fault, before anything happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from callosum import budget
from callosum.characters import is_shown
from callosum.deadline import expires_at
from callosum.errors import ConfigError
from callosum.model import (
    DEFAULT_NAMESPACE,
    MAX_KEY,
    MAX_NAME,
    MAX_PURPOSE,
    MAX_SUMMARY,
    Call,
    Commits,
    Key,
    Outcome,
    Worktree,
)
from callosum.policy.lifecycle import Requester
from callosum.redact import SecretDigests, redact_text, said, summarise
from callosum.redact.redactor import is_plain
from callosum.rules.commitments import side_of
from callosum.rules.keys import named
from callosum.unclean import repaired, without_surrogates
from callosum.wire import MAX_WAIT

MAX_ATTEMPT: Final = 1_000_000
"""Highest number of an attempt."""
MAX_FOLDER: Final = 4096
"""Maximum length of the path of a worktree or a home folder, in characters."""
MAX_PLACES: Final = 32
"""Maximum number of folders, and of home folders, in one call."""
MAX_PARAMS: Final = 4_000_000
"""Maximum size of a call's params, in bytes as JSON."""
MAX_TTL: Final = 24 * 3600.0
"""Maximum length of a lease, in seconds."""
MAX_SAID: Final = 4096
"""Number of characters of a summary or a purpose that are read."""

MAX_UNIX: Final = 2**33
"""Upper limit for the end of a declared commitment, in Unix seconds. It counts for at most 400 days."""

_encode = msgspec.json.Encoder(enc_hook=lambda value: f"<{type(value).__name__}>").encode


def with_json_params(call: Call) -> tuple[Call, bytes]:
    """Return the call with params that JSON can hold and the rules can read, and all of the params as JSON.

    Raises:
        ConfigError: The params are too long.
    """
    try:
        encoded = _encode(call.params)
    except Exception:  # noqa: BLE001 - whatever an object of the caller's raises
        call = replace(call, params=plain_params(call.params), rewrite=False)
        encoded = _encode(call.params)
    if (size := len(encoded)) > budget.SMALL:
        if size > MAX_PARAMS:
            raise ConfigError(f"{size} bytes as JSON, at most {MAX_PARAMS} are taken", at="params")
        if budget.values_in(encoded) > budget.MAX_VALUES:
            call = replace(call, params=msgspec.json.decode(budget.shorter(encoded)))
    return call, encoded


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return params that JSON can hold. Values that it cannot hold, such as a cycle, are summarised."""
    try:
        items = list(params.items())
    except Exception:  # noqa: BLE001 - a mapping of the caller's own
        return {"params": f"<{type(params).__name__}>"}
    return {
        repaired(name) if type(name) is str else f"<{type(name).__name__}>": _plain_value(value, str(name))
        for name, value in items
    }


def _plain_value(value: Any, name: str) -> Any:
    try:
        try:
            _encode(value)
        except UnicodeEncodeError:
            value = without_surrogates(value)
            _encode(value)
    except Exception:  # noqa: BLE001 - whatever an object of the caller's raises
        try:
            return next(iter(summarise({name: value}, mode="full").values()))
        except Exception:  # noqa: BLE001
            return f"<{type(value).__name__}>"
    return value


def check_call(call: Call) -> bool:
    """Check that a call can be used. Return True if its names surely hold no secret.

    Raises:
        ConfigError: A field cannot be used; the error names it.
    """
    names = call.instance, call.tool, call.namespace, call.session, call.run, call.parent, call.continues, call.origin
    try:
        plain = _check_names(call.worktree, call.cwd, *names)
    except TypeError:  # a value that is not hashable
        plain = _check_names.__wrapped__(call.worktree, call.cwd, *names)
    for id, at in ((call.call_id, "callId"), (call.dispatch, "dispatch")):
        if id is not None and (type(id) is not str or not _HOST_IDS.fullmatch(id)):
            check_name(id, at)
            plain = False
    if type(call.params) is not dict and not isinstance(call.params, Mapping):
        raise ConfigError(f"expected an object, got {type(call.params).__name__}", at="params")
    if call.wait != 0 or call.timeout is not None or call.deadline is not None or call.timeout_ms is not None:
        _check_times(call)
    if call.commits is not None:
        _check_commits(call.commits)
    if call.home is not None or call.homes is not None or call.worktrees is not None:
        _check_places(call)
        plain = False
    if call.task_id is not None:
        check_name(call.task_id, "taskId")
    if call.attempt != 1 and (type(call.attempt) is not int or not 1 <= call.attempt <= MAX_ATTEMPT):
        raise ConfigError(f"expected a number from 1, got {call.attempt!r}", at="attempt")
    plain = plain and call.task_id is None and call.attempt == 1
    if call.after is not None and type(call.after) is not int:
        raise ConfigError(f"expected the id of a decision, got {call.after!r}", at="after")
    if call.meta is not None and not isinstance(call.meta, Mapping):
        raise ConfigError(f"expected an object, got {type(call.meta).__name__}", at="meta")
    return plain


_SESSION: Final = ("instance", "tool", "namespace", "session", "run", "parent", "continues", "origin")
"""The names of a call that most calls of a session repeat; the first three are required."""
_HOST_IDS: Final = re.compile(r"((?:toolu|call|fc|msg|chatcmpl|tool)[_-][A-Za-z0-9]{1,24}|[a-z0-9-]{1,36})(@\d{1,10})?")
"""Ids that hosts make for calls, and dispatches of them. None of them looks like a secret."""


@lru_cache(maxsize=1024, typed=True)
def _check_names(worktree: Worktree | None, cwd: str | None, *names: str | None) -> bool:
    """Check what the calls of a session repeat. Return True if none of it holds a secret."""
    for place, (name, at) in enumerate(zip(names, _SESSION, strict=True)):
        if name is not None or place < 3:
            check_name(name, at)
    if cwd is not None and type(cwd) is not str:
        raise ConfigError(f"expected text, got {type(cwd).__name__}", at="cwd")
    if worktree is not None:
        _check_worktree(worktree, "worktree")
    folders = (worktree.root, worktree.repository) if worktree is not None else ()
    return is_plain(*[text for text in (*names, cwd, *folders) if text])


def _check_times(call: Call) -> None:
    wait, timeout = call.wait, call.timeout
    if wait != 0 and not (isinstance(wait, int | float) and 0 <= wait <= MAX_WAIT):
        raise ConfigError(f"expected 0 to {MAX_WAIT:.0f} seconds, got {wait!r}", at="wait")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout <= MAX_TTL):
        raise ConfigError(f"expected seconds, more than 0 and at most {MAX_TTL:.0f}", at="timeout")
    if call.deadline is not None or call.timeout_ms is not None:
        expires_at(call.deadline, call.timeout_ms)


def _check_commits(said: object) -> None:
    if not isinstance(said, Commits):
        raise ConfigError(f"expected a declared commitment, got {type(said).__name__}", at="commits")
    for name in ("side", "what", "to"):
        text = getattr(said, name)
        if type(text) is not str or len(text) > MAX_NAME:
            raise ConfigError(f"expected a text of at most {MAX_NAME} characters", at=f"commits.{name}")
    if not side_of(said.side):
        choices = "a verb such as accept, decline, book or cancel, or a word after + or -"
        raise ConfigError(f"expected {choices}, got {said.side[:64]!r}", at="commits.side")
    until = said.until
    if until is None or (type(until) in (int, float) and 0 <= until < MAX_UNIX):
        return
    raise ConfigError(f"expected Unix seconds, got {str(until)[:64]!r}", at="commits.until")


def _check_places(call: Call) -> None:
    if call.home is not None:
        _check_path(call.home, "home")
    for name in ("homes", "worktrees"):
        places = getattr(call, name)
        if places is None:
            continue
        if not isinstance(places, Mapping):
            raise ConfigError(f"expected an object, got {type(places).__name__}", at=name)
        if len(places) > MAX_PLACES:
            raise ConfigError(f"expected at most {MAX_PLACES}, got {len(places)}", at=name)
        for folder, value in places.items():
            field = f"{name}.{folder}"[:MAX_NAME] if is_shown(str(folder)) else name
            if type(folder) is not str or not 0 < len(folder) <= MAX_FOLDER:
                raise ConfigError(f"expected names of 1 to {MAX_FOLDER} characters", at=name)
            if name == "homes":
                _check_path(value, field)
            elif value is not None:
                _check_worktree(value, field)


def _check_worktree(worktree: object, at: str) -> None:
    if not isinstance(worktree, Worktree):
        raise ConfigError(f"expected a worktree, got {type(worktree).__name__}", at=at)
    _check_path(worktree.root, f"{at}.root")
    _check_path(worktree.repository, f"{at}.repository")


def _check_path(path: object, at: str) -> None:
    if type(path) is not str or not 0 < len(path) <= MAX_FOLDER:
        raise ConfigError(f"expected a path of at most {MAX_FOLDER} characters", at=at)
    if not is_shown(path):
        raise ConfigError("control characters, invisible ones and broken Unicode are not allowed", at=at)


def check_name(value: object, at: str) -> None:
    """Check that a value is a name: text of 1 to ``MAX_NAME`` visible characters.

    Raises:
        ConfigError: It is not; the error names the field ``at``.
    """
    if type(value) is str and value.isascii() and value.isprintable() and 0 < len(value) <= MAX_NAME:
        return  # the usual case
    if type(value) is not str:
        raise ConfigError(f"expected text, got {type(value).__name__}", at=at)
    if not 0 < len(value) <= MAX_NAME:
        raise ConfigError(f"expected 1 to {MAX_NAME} characters, got {len(value)}", at=at)
    if not is_shown(value):
        raise ConfigError("control characters, invisible ones and broken Unicode are not allowed", at=at)


def requester_of(
    instance: str,
    session: str | None,
    namespace: str,
    *,
    by: str = "",
    force: bool = False,
    any_session: bool = False,
    secrets: SecretDigests | None = None,
) -> Requester:
    """Return the requester of a report, without secrets in its names. A person who forces needs no instance."""
    if not force or instance:
        check_name(instance, "instance")
    if session is not None:
        check_name(session, "session")
    if namespace != DEFAULT_NAMESPACE:
        check_name(namespace, "namespace")
    if secrets is not None:
        instance, session = secrets.name(instance), secrets.name(session) if session else session
    actor = f"{instance}/{session}" if session else instance
    by = check_note(by, "by") if by else ""
    return Requester(actor, namespace, by, force, prefix=len(actor) + 1 if any_session else 0)


def own_text(call: Call, field: Literal["summary", "purpose"]) -> str | None:
    """Return the text in which a call describes itself, without secrets, cut to the number of characters ever shown.

    Raises:
        ConfigError: The value is not text, or is too long.
    """
    value = getattr(call, field)
    if value is None:
        return None
    text = check_note(value[:MAX_SAID] if type(value) is str else value, field)
    return said(text, MAX_SUMMARY if field == "summary" else MAX_PURPOSE)


def check_note(value: str, at: str) -> str:
    """Return a person's note for the journal, without secrets. Any text that can be stored is allowed.

    Raises:
        ConfigError: The value is not text, is longer than 4096 characters, or is broken Unicode.
    """
    if type(value) is not str or len(value) > 4096:
        raise ConfigError("expected a text of at most 4096 characters", at=at)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("broken Unicode is not allowed", at=at) from None
    return redact_text(value)


NOT_IN_KEYS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Characters that no key on the wire may hold, as the inside of a character class of Python and of JSON Schema."""
_CONTROLS: Final = re.compile(f"[{NOT_IN_KEYS}]")


def key_of(name: str, secrets: SecretDigests | None = None) -> Key:
    """Return the key with that name, of at most ``MAX_KEY`` characters, spelled as in calls.

    ``secrets`` replaces the secrets in it, as the rules do in the keys of calls.

    Raises:
        ConfigError: The name is not one key.
    """
    if type(name) is not str:
        raise ConfigError(f"expected text, got {type(name).__name__}", at="contextKey")
    if not 0 < len(name) <= MAX_KEY:
        raise ConfigError(f"expected 1 to {MAX_KEY} characters, got {len(name)}", at="contextKey")
    if not name.isprintable() and _CONTROLS.search(name):
        raise ConfigError("control characters, line breaks and broken Unicode are not allowed", at="contextKey")
    spellings = named(name)
    if len(spellings) > 1:
        raise ConfigError(f"expected one key, got {len(spellings)}: {', '.join(spellings)}"[:200], at="contextKey")
    spelled = spellings[0] if spellings else name
    return Key(secrets.key(spelled) if secrets is not None else spelled)


def id_of(value: int) -> int:
    """Return the id of a decision.

    Raises:
        ConfigError: The value cannot be an id.
    """
    if type(value) is not int or not 0 < value < 2**63:
        raise ConfigError(f"expected the id of a decision, got {value!r}", at="id")
    return value


_DONE: Final = Outcome.DONE  # an enum's attributes are slow
_LOST_WORDS: Final = re.compile(
    r"time(?:d[ _-]?|[ _-]?)out|deadline[ _]exceeded|connection (?:was |has been )?"
    r"(?:reset|lost|closed|aborted|dropped|interrupted)|econn(?:reset|aborted)|epipe|broken pipe|socket hang up"
    r"|server disconnected|remote end closed"
)
"""Words in an error, in lower case, that mean that the outcome of the call is unknown."""


def outcome_of(result: Any, outcome: Outcome | str | None) -> Outcome:
    """Return the outcome in a report: ``failed`` if the result has an ``error``, otherwise ``outcome`` or done.

    Only a definite refusal is ``failed``. An error about a timeout or a lost connection makes the outcome ``unknown``,
    and an explicit ``unknown`` or ``cancelled`` stays.

    Raises:
        ConfigError: ``outcome`` is none of the outcomes.
    """
    if outcome is not None and type(outcome) is not Outcome:
        try:
            outcome = Outcome(outcome)
        except ValueError:
            choices = ", ".join(Outcome)
            raise ConfigError(f"expected one of {choices}, got {outcome!r}", at="outcome") from None
    error = result.get("error") if type(result) is dict or isinstance(result, Mapping) else None
    if not error:
        return outcome or _DONE
    if outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        return outcome
    text = error if isinstance(error, str) else str(error)[:1000]
    if outcome is None and _LOST_WORDS.search(text[:1000].lower()):
        return Outcome.UNKNOWN
    return Outcome.FAILED


def journalled_result(result: Any, mode: Literal["summary", "full", "none"]) -> Any:
    """Return what the journal keeps of a result, summarised as params are."""
    if result is None or mode == "none":
        return None
    if isinstance(result, dict):
        return summarise(result, mode=mode)
    return summarise({"result": result}, mode=mode)["result"]


_NAMES: Final = "instance tool session run parent continues call_id task_id cwd origin home dispatch".split()


def without_secrets(call: Call, secrets: SecretDigests) -> Call:
    """Return the call without secrets in its names: a digest replaces each. The params stay as they are."""
    name, tree, homes, trees = secrets.name, call.worktree, call.homes or {}, call.worktrees or {}
    folders = [path for one in (tree, *trees.values()) if one is not None for path in (one.root, one.repository)]
    ids = ("call_id", "dispatch")
    names = [text for at in _NAMES if (text := getattr(call, at)) and not (at in ids and _HOST_IDS.fullmatch(text))]
    if is_plain(*names, *homes, *homes.values(), *trees, *folders):
        return call
    shown: dict[str, Any] = {at: name(value) for at in _NAMES if (value := getattr(call, at)) is not None}
    if tree is not None:
        shown["worktree"] = _without(name, tree)
    if call.homes is not None:
        shown["homes"] = {name(user): name(home) for user, home in homes.items()}
    if call.worktrees is not None:
        shown["worktrees"] = {name(at): one and _without(name, one) for at, one in trees.items()}
    return replace(call, **shown)


def _without(name: Callable[[str], str], tree: Worktree) -> Worktree:
    return replace(tree, root=name(tree.root), repository=name(tree.repository))
