"""The README's code runs, and that of the guides, block after block, as a newcomer would paste it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forking

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run(page: Path, folder: Path) -> str:
    """Run a page's Python blocks one after another, with the state in ``folder``; return what they print."""
    done = subprocess.run(
        [sys.executable, "-c", "\n\n".join(blocks("python", page))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "CALLOSUM_STATE": str(folder / "state"), "PYTHONPATH": str(README.parent)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/corpus.md"])
def test_the_python_blocks_run(tmp_path: Path, page: str) -> None:
    run(README.parent / page, tmp_path)
    assert (tmp_path / "state" / "gate.db").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/first-gate.md"])
def test_the_first_program_stops_the_second_mail(tmp_path: Path, page: str) -> None:
    first = "\n\n".join(blocks("python", README.parent / page)[:1])
    environ = {**os.environ, "CALLOSUM_STATE": str(tmp_path / "state"), "PYTHONPATH": str(README.parent)}
    done = subprocess.run(
        [sys.executable, "-c", first], capture_output=True, text=True, check=True, cwd=tmp_path, env=environ
    )
    sent, refused = done.stdout.split("\n", 1)
    assert sent in ("chat sends", "sent to alice@example.com")
    assert refused.startswith("[Callosum] Conflict: mira/chat already did the same")
    assert "sends" not in refused.replace(sent, "")


def test_tour_prints_what_the_readme_shows_and_leaves_the_users_state_alone(tmp_path: Path) -> None:
    page = README.parent / "docs" / "tour.md"
    (said,) = re.findall(r"It prints `(.*?)`", page.read_text("utf-8"))
    assert run(page, tmp_path).splitlines()[0] == said
    assert not (tmp_path / "state").exists()


def test_setup_is_two_make_commands() -> None:
    makefile = (README.parent / "Makefile").read_text("utf-8")
    commands = [line.split("#")[0].split() for line in blocks("sh")[0].splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    for _, target in commands:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_command_of_the_readme_exists() -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = {line.split()[1] for line in lines if line.startswith("callosum ")}
    assert {"serve", "status"} <= commands
    for command in commands:
        done = forking.run(
            [sys.executable, "-m", "callosum.cli", command, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            env=forking.shared_environ(os.environ),
        )
        assert done.returncode == 0, (command, done.stderr)


def texts_of(svg: str) -> list[str]:
    return [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if text.strip()]


def test_picture_shows_the_sentences_that_the_gate_says(tmp_path: Path) -> None:
    drawn = tmp_path / "refusal.svg"
    script = README.parent / "docs" / "refusal.py"
    subprocess.run(
        [sys.executable, str(script), str(drawn)], check=True, timeout=60, env=forking.shared_environ(os.environ)
    )
    shown = README.parent / "docs" / "refusal.svg"
    assert texts_of(shown.read_text("utf-8")) == texts_of(drawn.read_text("utf-8")), f"draw it anew with {script.name}"
