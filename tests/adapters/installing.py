"""The session of frameworks without a conversation, or whose adapter gates the whole process."""

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tests.adapters.harness import Job

_conversation: ContextVar[str | None] = ContextVar("conversation", default=None)
_turn = threading.Lock()
_users: dict[str, int] = {}
"""How many runs use what an adapter has installed: one that begins within another shares its gate."""
_uninstall: dict[str, Callable[[], None]] = {}


@contextmanager
def installed(module: str, job: Job, *, conversation: bool = True) -> Iterator[None]:
    """Gate the process as a job says while its agent runs; its conversation is given as the session if asked for."""
    if job.gate is None:
        yield
        return
    token = _conversation.set(job.conversation)
    options = {"session": _conversation.get, **job.options} if conversation else job.options
    with _turn:
        _users[module] = _users.get(module, 0) + 1
        if _users[module] == 1:
            _uninstall[module] = importlib.import_module(f"callosum.adapters.{module}").install(job.gate, **options)
    try:
        yield
    finally:
        _conversation.reset(token)
        with _turn:
            _users[module] -= 1
            if not _users[module]:
                _uninstall.pop(module)()
