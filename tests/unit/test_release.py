"""What a release needs agrees: versions, release notes, the JavaScript package's files."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from callosum.hosts import native
from release.check import TESTS, faults, versions
from release.wheels import ROOT, build_archive


def copied(into: Path) -> Path:
    for name in (*versions(ROOT), "docs/releases"):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, into / name)
    return into


def test_repository_can_be_released() -> None:
    assert faults(ROOT) == []
    assert all((ROOT / test).exists() for test in TESTS)


def test_version_that_differs_is_named_with_its_file(tmp_path: Path) -> None:
    root = copied(tmp_path)
    assert faults(root) == []
    package = root / "clients/javascript/package.json"
    package.write_text(json.dumps({**json.loads(package.read_text()), "version": "9.9.9"}))
    assert "clients/javascript/package.json: 9.9.9" in faults(root)[0]


def test_release_without_notes_is_refused(tmp_path: Path) -> None:
    root = copied(tmp_path)
    shutil.rmtree(root / "docs/releases")
    assert faults(root) == ["docs/releases/0.1.0.md: there are no release notes"]


def test_javascript_package_holds_the_files_it_names() -> None:
    folder = ROOT / "clients/javascript"
    package = json.loads((folder / "package.json").read_text())
    for name in [*package["files"], package["main"], package["types"]]:
        assert (folder / name).exists(), name
    assert {"name", "version", "description", "keywords", "license", "author", "engines", "exports"} <= set(package)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the client is NOT compiled: there is no C compiler")
def test_wheel_from_a_clone_holds_the_client_that_the_own_compiler_made(tmp_path: Path) -> None:
    build_archive("wheel", tmp_path, os.environ)
    (wheel,) = tmp_path.glob("*.whl")
    program = f"{native.platform()}/{native.PROGRAM}"
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"callosum/hosts/native/{program}", tmp_path)
    client = tmp_path / "callosum/hosts/native" / program
    client.chmod(0o700)
    ran = subprocess.run([client, "codex"], input="{}", capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "Callosum"), ran.stderr
    assert "none-any" not in wheel.name


@pytest.mark.parametrize("compiler", ["/does/not/exist", "false"])
def test_wheel_from_a_clone_without_a_compiler_that_works_is_pure(tmp_path: Path, compiler: str) -> None:
    build_archive("wheel", tmp_path, {**os.environ, "CC": compiler})
    assert [path.name.partition("-none-")[2] for path in tmp_path.glob("*.whl")] == ["any.whl"]
