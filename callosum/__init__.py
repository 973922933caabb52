"""Callosum: the gate between an AI agent's intent (a tool call) and its execution.

Every public name is loaded when it is first asked for: a hook process, which lives for milliseconds, imports one
module of the package and must not pay for the others.
"""

TYPE_CHECKING = False  # the one of typing takes a hook longer than all else here
if TYPE_CHECKING:
    from callosum.client import AsyncCallosumClient as AsyncCallosumClient
    from callosum.client import CallosumClient as CallosumClient
    from callosum.errors import Blocked as Blocked
    from callosum.errors import CallosumError as CallosumError
    from callosum.errors import ConfigError as ConfigError
    from callosum.errors import Expired as Expired
    from callosum.errors import GateUnavailable as GateUnavailable
    from callosum.errors import NotAPerson as NotAPerson
    from callosum.errors import Repeated as Repeated
    from callosum.errors import StoreError as StoreError
    from callosum.errors import StoreUnavailable as StoreUnavailable
    from callosum.errors import Unconfirmed as Unconfirmed
    from callosum.gate import Gate as Gate
    from callosum.gate import LocalGate as LocalGate
    from callosum.guards import AsyncGate as AsyncGate
    from callosum.guards import confirming as confirming
    from callosum.guards import gated as gated
    from callosum.guards import guard as guard
    from callosum.model import Action as Action
    from callosum.model import Call as Call
    from callosum.model import Classification as Classification
    from callosum.model import Commits as Commits
    from callosum.model import Conflict as Conflict
    from callosum.model import Decision as Decision
    from callosum.model import Entry as Entry
    from callosum.model import Host as Host
    from callosum.model import Key as Key
    from callosum.model import Kind as Kind
    from callosum.model import Lease as Lease
    from callosum.model import LockResult as LockResult
    from callosum.model import Mode as Mode
    from callosum.model import Observation as Observation
    from callosum.model import Outcome as Outcome
    from callosum.model import Report as Report
    from callosum.model import State as State
    from callosum.model import Status as Status
    from callosum.model import Tier as Tier
    from callosum.model import Verdict as Verdict
    from callosum.rules import RuleSet as RuleSet

__version__ = "0.1.0"

_WHERE = {
    "client": "AsyncCallosumClient CallosumClient",
    "errors": (
        "Blocked CallosumError ConfigError Expired GateUnavailable NotAPerson Repeated StoreError StoreUnavailable "
        "Unconfirmed"
    ),
    "gate": "Gate LocalGate",
    "guards": "AsyncGate confirming gated guard",
    "model": (
        "Action Call Classification Commits Conflict Decision Entry Host Key Kind Lease LockResult Mode Observation "
        "Outcome Report State Status Tier Verdict"
    ),
    "rules": "RuleSet",
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - a literal list would say the names a third time


def __getattr__(name: str) -> object:
    """Load the module that defines the name, and keep the name here (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - costs a hook process nothing where nothing is asked for

    found = getattr(import_module(f"callosum.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names too, loaded or not."""
    return sorted({*globals(), *_MODULES})
