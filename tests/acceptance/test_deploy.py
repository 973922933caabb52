"""The examples in ``examples/deploy`` work: the unit's own command starts, and compose names only existing files."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from callosum.client import CallosumClient
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from tests.acceptance.command import CALLOSUM, environment
from tests.support.postgres import Server, schema_of
from tests.support.serving import Server as Serving
from tests.support.serving import serving, until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"
UNIT = (DEPLOY / "callosum.service").read_text(encoding="utf-8")
BALANCER = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def settings(name: str) -> list[str]:
    """Return the values of this name in the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    url = postgres.url()
    yield url
    postgres.drop(schema_of(url))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """All lines are checked; only the program may be missing on this machine."""
    here = tmp_path / "callosum.service"
    here.write_text(UNIT.replace("/opt/callosum/bin/callosum", sys.executable))
    good = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    here.write_text(here.read_text().replace("UMask=0077", "UMask=nonsense"))
    bad = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert "nonsense" in bad.stderr


def test_the_unit_s_own_command_serves(tmp_path: Path, url: str) -> None:
    """The environment file is filled in, the credentials are where systemd puts them, and there is a token."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    state, credentials = tmp_path / "var" / "callosum", tmp_path / "credentials"
    credentials.mkdir()
    for one in settings("LoadCredential"):
        assert one.partition(":")[0] in ("cert.pem", "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", credentials / "key.pem",
         "-out", credentials / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    token = Tokens(state / TOKENS).add("agents")
    (line,) = settings("ExecStart")
    words = shlex.split(line.replace("%S", str(tmp_path / "var")).replace("%d", str(credentials)))
    assert words[0] == "/opt/callosum/bin/callosum"
    words[words.index("0.0.0.0")] = "127.0.0.1"  # noqa: S104 - tests stay on this machine
    given = dict(one.split("=", 1) for one in (DEPLOY / "callosum.env").read_text().splitlines() if "=" in one)
    given["CALLOSUM_STORE"] = url
    address = tmp_path / "address"
    with address.open("wb") as out, (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*CALLOSUM, *words[1:], "--port", "0"], stdout=out, stderr=log, env=environment(tmp_path, **given)
        )
    try:
        (port,) = until(lambda: re.findall(r"https://127\.0\.0\.1:(\d+)$", address.read_text(), re.MULTILINE))
        with CallosumClient(
            f"https://localhost:{port}", token=token, cafile=credentials / "cert.pem", deadline=10
        ) as client:
            assert client.health()["pool"]["limit"] == 16
            assert client.lock("mira", "doc:1").acquired
        process.terminate()
        assert process.wait(20) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()


def test_compose_names_only_existing_files() -> None:
    """Files, secrets, volumes and the services others wait for; the image holds the files the package is built from."""
    services = COMPOSE["services"]
    for name, service in services.items():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "test" in services[other]["healthcheck"]
        for volume in service.get("volumes", ()):
            place = volume.partition(":")[0]
            assert (DEPLOY / place).is_file() if place.startswith(".") else place in COMPOSE["volumes"], volume
    assert (DEPLOY / services["one"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["one"]["build"]["dockerfile"]).is_file()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert all((ROOT / path).exists() for line in copied for path in line.split())
    balanced = re.findall(r"^    server \S+ (\S+):7700", BALANCER, re.MULTILINE)
    assert balanced == ["one", "two"]
    assert not re.findall(r"://[^@\s]*:[^@\s]*@", (DEPLOY / "compose.yaml").read_text())


def test_the_container_s_entry_and_health_check(tmp_path: Path) -> None:
    """The entry passes on its arguments and the secret; the check succeeds only for a server that decides."""
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    shell, c, script, zero = yaml.safe_load(entry)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "callosum").write_text('#!/bin/sh\necho "$PGPASSWORD" "$@"\n')
    (programs / "callosum").chmod(0o755)
    (tmp_path / "postgres").write_text("geheim\n")
    script = script.replace("/run/secrets", str(tmp_path))
    path = f"{programs}:{environment(tmp_path)['PATH']}"
    said = subprocess.run(
        [shell, c, script, zero, "store", "migrate", "a b"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "geheim store migrate a b\n"

    kind, _, *check = COMPOSE["services"]["one"]["healthcheck"]["test"]
    assert kind == "CMD"

    def healthy(server: Serving) -> bool:
        words = [
            sys.executable,
            *(word.replace("127.0.0.1:7700", server.address.partition("://")[2]) for word in check),
        ]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    (words,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    serve, *options = yaml.safe_load(words)
    assert serve == "serve"
    Tokens(tmp_path / "state" / TOKENS).add("agents")
    with serving(tmp_path / "state", *options, "--port", "0") as server:
        assert server.address.startswith("http://0.0.0.0:"), "as it is started there: only a token is let in"
        server.address = server.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - tests stay on this machine
        assert healthy(server)
        asks = r"http-check send meth (\S+) uri (\S+) hdr (\S+) (\S+)$"
        ((method, path, name, value),) = re.findall(asks, BALANCER, re.MULTILINE)
        (status,) = re.findall(r"^    http-check expect status (\d+)$", BALANCER, re.MULTILINE)
        assert server.ask(method, path, headers={name: value}).status == int(status)
    assert not healthy(server)
