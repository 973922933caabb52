"""What a framework's driver is given, and what it returns.

A driver is a subclass of ``Framework`` in a module of ``tests/adapters/frameworks``: it builds an agent of the
framework out of a ``Job``, with a model of the framework's own that follows a script, runs it under the gate, and
returns what the model read. The behaviours (``behaviours.py``) are the same for all of them.

Drivers import their framework inside their methods, so that the table in ``docs/frameworks.md`` can be made from all
descriptions without any framework.
"""

# no `from __future__ import annotations`: frameworks read the annotations of tools

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from callosum.gate import Gate
from tests.adapters import frameworks

Mode = Literal["sync", "async", "streamed"]

BEHAVIOURS: Mapping[str, str] = {
    "deny": "the model reads the whole sentence in place of the result, and the tool does not run",
    "confirm": "the same call in a later turn runs",
    "ask and resume": "with `host_approvals=True` the run pauses; a yes runs the call once, a no does not run it",
    "parallel": "calls of one turn are decided each by itself; equal ones do not confirm each other",
    "streaming": "a streamed run is refused and confirmed like any other",
    "nested agent": "an agent that a tool runs is gated, and the outer call is not in its way",
    "retry": "a call that failed may be made again",
    "cancelled": "the outcome of a call whose run is cancelled is `unknown`",
    "tool raises": "an error is `failed`, a timeout or a lost connection `unknown`",
    "gate away": "tiers 0 to 2 run, 3 and 4 are refused",
    "gate killed": "the same once the gate dies during a run; what ran is journalled later",
    "two sessions": "two conversations of one program are two sessions",
    "injected arguments": "what the framework injects into a tool reaches neither gate nor journal",
}
"""The rows of the table in the docs."""


@dataclass(frozen=True)
class Scripted:
    """A tool call that the scripted model makes. The framework must hand on ``id`` where it knows ids."""

    tool: str
    id: str
    args: Mapping[str, Any]


@dataclass
class Tool:
    """A function to be made a tool of the framework.

    With ``inject`` the framework's tool also takes what the framework injects (a context, a runtime), which the driver
    appends to ``injected`` and does not hand to the function.
    """

    function: Callable[..., Any]
    awaited: Callable[..., Any] | None = None
    inject: bool = False
    injected: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def made(self, *, awaited: bool) -> Callable[..., Any]:
        """Return the function, as a coroutine function where ``awaited``, with its own signature and docstring."""
        if not awaited:
            return self.function
        if self.awaited is not None:
            return functools.wraps(self.function)(self.awaited)

        @functools.wraps(self.function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

        return coroutine


@dataclass
class Nested:
    """An agent that another one has as a tool, by the framework's own means where it has any.

    The model calls it with the one string argument ``input``. ``turns`` are what the inner agent's own model says.
    """

    name: str
    turns: Sequence[Sequence[Scripted]]
    tools: Sequence[Tool]


@dataclass
class Job:
    """One run of an agent.

    Each turn is a list of calls that the model makes at once; after the last turn it says "done". ``conversation`` is
    given as the framework's own conversation or thread; a framework without one gets it as the adapter's ``session``.
    ``options`` are the adapter's; without a ``gate`` the agent is built as if there were no adapter. ``awaited``: tools
    are coroutine functions. To go on after a pause, the job comes again with what the run left in ``Ran.paused`` and the
    person's ``answer``.
    """

    gate: Gate | None
    turns: Sequence[Sequence[Scripted]]
    tools: Sequence[Tool | Nested]
    conversation: str = "chat"
    options: dict[str, Any] = field(default_factory=dict)
    awaited: bool = False
    paused: Any = None
    answer: bool = False


@dataclass
class RunResult:
    """What came of a run.

    ``read`` is the text that the model read for each call, by the call's id; ``conflicts`` the structured conflicts
    beside a refusal, where the framework has a place for them. ``error`` is what the run raised, ``paused`` what a job
    needs to go on.
    """

    read: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    paused: Any = None


class Framework:
    """A framework: what the docs claim about it, and how the tests drive it."""

    name: ClassVar[str]
    """As in the docs."""
    module: ClassVar[str]
    """The adapter's, below ``callosum.adapters``."""
    extra: ClassVar[str]
    """The extra of pyproject.toml that brings the framework."""
    imports: ClassVar[str]
    """The module by which the tests know that the framework is installed."""
    heavy: ClassVar[bool] = False
    """Whether CI tests the framework by rota."""
    main: ClassVar[bool] = False
    """Whether the tests' own environment (``make test``) has the framework."""

    writes: ClassVar[str]
    """What a program writes, as Markdown."""
    conversation: ClassVar[str]
    """What of the framework is the session."""
    nested: ClassVar[str]
    """The session of an agent that a tool runs."""
    refusal: ClassVar[str]
    """How the model gets a refusal."""
    question: ClassVar[str]
    """What happens when a person must decide."""
    unseen: ClassVar[str]
    """What the adapter does not see."""

    around: ClassVar[str] = "{sentence}"
    """What the model reads of a refusal: what the framework puts around the sentence."""
    structured: ClassVar[bool] = False
    """Whether a refusal carries the conflicts as data."""
    modes: ClassVar[tuple[Mode, ...]] = ("sync", "async", "streamed")
    concurrent: ClassVar[tuple[Mode, ...]] = ("sync", "async", "streamed")
    """In which of its modes the framework runs the calls of one turn at the same time."""
    async_tools: ClassVar[bool] = True
    """Whether tools are coroutine functions in the modes ``async`` and ``streamed``."""
    answers: ClassVar[Mapping[str, Any]] = {}
    """Options with which the behaviour ``ask and resume`` runs, beside ``host_approvals``."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """Behaviours that cannot hold, each with its reason."""
    notes: ClassVar[Mapping[str, str]] = {}
    """Behaviours that hold, with a difference that users should know."""
    warnings: ClassVar[Sequence[str]] = ()
    """Warnings of the framework itself that are no faults of the adapter, in the form of pytest's filterwarnings."""

    def named(self, tool: str) -> str:
        """Return the name by which the gate and the model know a tool."""
        return tool

    @classmethod
    def installed(cls) -> bool:
        """Return whether the framework can be imported here."""
        try:
            return find_spec(cls.imports) is not None
        except ModuleNotFoundError:  # a parent package is missing
            return False

    def run(self, job: Job) -> RunResult:
        """Run an agent in this thread."""
        raise NotImplementedError

    async def arun(self, job: Job) -> RunResult:
        """Run an agent in the running event loop."""
        raise NotImplementedError

    async def stream(self, job: Job) -> RunResult:
        """Run an agent whose events are streamed, to the stream's end."""
        raise NotImplementedError


def every_framework() -> dict[str, Framework]:
    """Return all described frameworks by their extras, in the order of the docs."""
    found = [
        importlib.import_module(f"{frameworks.__name__}.{module.name}").FRAMEWORK
        for module in pkgutil.iter_modules(frameworks.__path__)
    ]
    return {one.extra: one for one in sorted(found, key=lambda one: one.name.lower())}
