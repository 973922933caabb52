"""Test the URL of a server from the command line into the hook script."""

import shutil
import subprocess
from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.hosts.install import plan_install
from callosum.hosts.remote import remote_of
from callosum.hosts.script import script_of
from callosum.hosts.setup import InstallTarget
from callosum.settings import Settings

NO_ADDRESSES = ["https://[::1", "https://gate:abc", "https://gate:0", "gate", "ftp://gate", "unix:/run/gate.sock", ""]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("cal_mira_x\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "url", [*NO_ADDRESSES, "https://mira@gate", "https://gate?x=1", "https://gate#x", "https://a b"]
)
def test_malformed_url_is_refused_with_a_sentence(token_file: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="expected the address of a server") as refused:
        remote_of(url, token_file, None)
    assert refused.value.at == "--url"


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_malformed_url_is_refused_for_http_hooks(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="expected the address of a server") as refused:
        plan_install("claude-code", Settings(state=tmp_path), InstallTarget(home=tmp_path, environ={}, url=url))
    assert refused.value.at == "--http"


def test_url_is_quoted_for_the_shell(tmp_path: Path, token_file: Path) -> None:
    """The script asks exactly that server, and runs nothing in its URL."""
    trace = tmp_path / "trace"
    url = f"https://127.0.0.1:1/$(touch {trace})/`touch {trace}`/'\";$HOME".replace(f"touch {trace}", f">{trace}")
    script = tmp_path / "hook"
    text = script_of(Settings(state=tmp_path / "state"), remote_of(url, token_file, None), "codex")
    programs = tmp_path / "bin"
    programs.mkdir()
    script.write_text(text.replace(str(shutil.which("curl")), str(programs / "curl")))
    (programs / "curl").write_text(f'#!/bin/sh\nfor word; do last=$word; done\nprintf %s "$last" >{tmp_path}/asked\n')
    (programs / "curl").chmod(0o755)
    subprocess.run(
        ["/bin/sh", str(script), "codex"],
        input=b'{"hook_event_name": "SessionStart", "session_id": "s"}',
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        check=False,
        capture_output=True,
    )
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"{url}/hooks/codex?via=callosum-hook&timeoutMs=3000")
    assert not trace.exists()
