"""Install the real OpenClaw once beside the tests, with a model, a Telegram server and a gateway for all tests."""

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from tests.e2e.home import until
from tests.e2e.openclaw.house import HERE, Fake, Gateway, OpenClawHome, fake, gateway_of

CACHE = HERE.parent / ".hosts" / "openclaw"


@pytest.fixture(scope="session")
def programs() -> SimpleNamespace:
    return installed()


def installed() -> SimpleNamespace:
    """Install Node and OpenClaw with npm if they are missing. Without npm these tests report that they did not run."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # two simultaneous test runs install it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed()


def _installed() -> SimpleNamespace:
    npm = shutil.which("npm")
    wanted = (HERE / "package.json").read_text()
    stamp = CACHE / "installed"
    node, host = CACHE / "node_modules/node/bin/node", CACHE / "node_modules/openclaw/openclaw.mjs"
    if not (stamp.exists() and stamp.read_text() == wanted and node.exists() and host.exists()):
        if npm is None:
            pytest.skip("OpenClaw is NOT tested: there is no npm to install it with")
        (CACHE / "package.json").write_text(wanted)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", "--ignore-scripts", *quiet], cwd=CACHE, check=True, timeout=900)
        subprocess.run([npm, "rebuild", "node", *quiet], cwd=CACHE, check=True, timeout=300)  # fetches the binary
        # OpenClaw finishes its installation at its first start; two simultaneous first starts break it.
        subprocess.run([str(node), str(host), "--version"], cwd=CACHE, check=True, timeout=300, capture_output=True)
        stamp.write_text(wanted)
    return SimpleNamespace(node=str(node), openclaw=str(host))


@pytest.fixture(scope="session")
def model(programs: SimpleNamespace) -> Iterator[Fake]:
    with fake(programs.node, "model.mjs") as running:
        yield running


@pytest.fixture(scope="session")
def telegram(programs: SimpleNamespace) -> Iterator[Fake]:
    with fake(programs.node, "telegram.mjs") as running:
        yield running


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, programs: SimpleNamespace, model: Fake, telegram: Fake
) -> Iterator[OpenClawHome]:
    """Return a home whose OpenClaw is gated."""
    made = OpenClawHome(tmp_path_factory.mktemp("house"), programs, model, telegram).gated()
    with ExitStack() as stack:
        stack.callback(made.stop_gate)
        yield made


@pytest.fixture(scope="module")
def gateway(house: OpenClawHome) -> Iterator[Gateway]:
    """Yield its gateway, with the gate that it started."""
    with gateway_of(house) as running:
        until(lambda: house.logged("health.ok"), "the gateway's first sign of life")
        yield running


@pytest.fixture(scope="session")
def make_house(
    tmp_path_factory: pytest.TempPathFactory, programs: SimpleNamespace, model: Fake
) -> Iterator[Callable[..., OpenClawHome]]:
    """Yield a function that makes further homes, optionally with a channel. Stop their gates at the end."""
    with ExitStack() as stack:

        def make(name: str, channel: Fake | None = None) -> OpenClawHome:
            made = OpenClawHome(tmp_path_factory.mktemp(name), programs, model, channel)
            stack.callback(made.stop_gate)
            return made

        yield make
