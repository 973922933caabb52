"""What holds for all tests."""

import asyncio
import gc
import importlib
import inspect
import os
import pkgutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import callosum
from callosum import person
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.programs import is_set_by_host
from callosum.settings import Settings

# Their servers are fixtures of the session. Imported by a module, such a fixture would be another one for each module.
pytest_plugins = ["tests.support.postgres", "tests.support.previous", "tests.support.redis_server"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Search for no garbage before the tests run; the process that distributes them to workers makes none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Loads all of the product, where tests will run.

    Hypothesis also tries constants of the modules that are loaded. Which examples a test is given must not depend on
    which tests the same process ran before it.
    """
    for found in pkgutil.walk_packages(callosum.__path__, "callosum."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError, ConfigError, Warning):  # what it needs is not installed, or warns by itself
                importlib.import_module(found.name)
    gc.enable()
    gc.collect()
    gc.freeze()  # no search for garbage looks at the collected tests again


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on an event loop of its own, and give it up after two minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})

    asyncio.run(bounded())
    return True


@pytest.fixture(autouse=True, scope="session")
def signals_of_a_terminal() -> Iterator[None]:
    """Let the processes of the tests end on signals that whoever started the tests ignores.

    A shell ignores SIGINT and SIGQUIT in a script's background, and nohup ignores SIGHUP. Children inherit that.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGQUIT", "SIGHUP") if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def started_by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may be run by an agent; what they do in their own process counts as a person's.

    What the proof of a person is worth is shown with processes of their own (``test_person.py``).
    """
    for name in filter(is_set_by_host, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setattr(person, "ancestors", lambda _pid: [])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the path of a state folder that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def gate(state: Path) -> Iterator[LocalGate]:
    """Yield an embedded gate with default settings."""
    with LocalGate(settings=Settings(state=state)) as gate:
        yield gate
