"""Test where the local gate listens if the state folder's path is too long for a socket."""

import stat
from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.model import Call
from callosum.rulebook import Rulebook
from callosum.server.listeners import listen_local
from callosum.settings import Settings
from callosum.sockets import LONGEST, socket_path

DEEP = "/srv/" + "deep/" * 30 + "state"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("h")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return home


def test_socket_is_in_the_state_folder_if_possible(home: Path) -> None:
    assert socket_path("~/state") == f"{home}/state/gate.sock"


def test_socket_is_otherwise_in_a_private_folder_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ``/tmp`` the first process could pose as the gate, and would see and allow every tool call."""
    path = Path(socket_path(DEEP))
    assert path.parent == home / ".callosum"
    assert path.name != Path(socket_path(DEEP + "2")).name
    with listen_local(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert Path(socket_path(DEEP)).parent == Path("/run/user/7")


def test_server_explains_a_path_that_fits_nowhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home / ("h" * LONGEST)))
    with pytest.raises(ConfigError, match="XDG_RUNTIME_DIR"), listen_local(Path(socket_path(DEEP))):
        pass


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["curl --unix-socket {} -X POST http://localhost/hooks/codex", "rm -f {}"])
def test_guard_protects_the_socket_like_the_state_folder(command: str) -> None:
    rules = Rulebook.of(Settings(state=Path(DEEP), server_socket=Path("/run/gate/one.sock"))).current()
    for place in (socket_path(DEEP), f"{DEEP}/gate.sock", "/run/gate/one.sock"):
        found = rules.classify(Call("mira", "bash", {"command": command.format(place)}))
        assert (found.tier, found.rule) == (4, "self-guard"), place
