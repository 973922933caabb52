"""Tests each framework in environments of its own, at the oldest and at the newest version: ``make adapters``.

The oldest version is the lower bound that pyproject.toml names in the framework's extra, the newest what the registry
has today. An environment is made once in ``.venv-adapters`` and again when the extra has changed; the newest versions
are looked up once a day.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.adapters.harness import Framework, every_framework

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-adapters"
OURS = "callosum-protocol["
BOUND = re.compile(r"(?P<name>[\w.-]+(\[[\w,.-]*\])?)\s*>=\s*(?P<oldest>[\w.]+)")
AGES = ("oldest", "newest")
LIGHT_A_DAY = 3
"""How many of the light frameworks are tested each day by rota, beside one heavy one."""


class FastMCP(Framework):
    """Servers, not agents: the behaviours of the matrix do not apply, so only their own tests are run."""

    name = "FastMCP"
    module = "fastmcp"
    extra = "fastmcp"
    imports = "fastmcp"


def with_servers() -> dict[str, Framework]:
    """Return all frameworks by their extras, with those that are in no table of the docs."""
    return {**every_framework(), FastMCP.extra: FastMCP()}


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra in pyproject.toml, without Callosum's own other extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def all_of(name: str) -> Iterator[str]:
        for requirement in extras[name]:
            if requirement.startswith(OURS):
                for other in requirement.removeprefix(OURS).rstrip("]").split(","):
                    yield from all_of(other)
            else:
                yield requirement

    return list(all_of(extra))


def oldest(required: Sequence[str]) -> list[str]:
    """Return the requirements with each lower bound as the version itself."""
    return [found["name"] + "==" + found["oldest"] for one in required if (found := BOUND.match(one))]


def environment(framework: Framework, age: str) -> Path:
    """Return the Python of an environment with the framework, made if it is not there yet."""
    folder = FOLDER / f"{framework.extra}-{age}"
    python = folder / "bin/python"
    required = requirements(framework.extra)
    wanted = {"required": required, "tests": requirements("adapters"), "day": ""}
    if age == "newest":
        wanted["day"] = dt.datetime.now(dt.UTC).date().isoformat()
    stamp = folder / "made.json"
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return python
    stamp.unlink(missing_ok=True)
    if not python.exists():
        venv.create(folder, with_pip=True)
    pinned = oldest(required) if age == "oldest" else []
    install = [*_pip(python), "install", "--upgrade", "--editable", f".[adapters,{framework.extra}]", *pinned]
    subprocess.run(install, cwd=ROOT, check=True)
    stamp.write_text(json.dumps(wanted))
    return python


def versions(python: Path, framework: Framework) -> str:
    """Return which versions of the framework's packages an environment has."""
    names = [re.split(r"[\[<>=~! ]", one)[0] for one in requirements(framework.extra)]
    code = "import sys; from importlib.metadata import version; print(*(f'{n} {version(n)}' for n in sys.argv[1:]), sep=', ')"
    return subprocess.run([python, "-c", code, *names], check=True, capture_output=True, text=True).stdout.strip()


def tested(framework: Framework, age: str, more: Sequence[str]) -> str:
    """Test one framework at one version; return a line that says how it went."""
    try:
        python = environment(framework, age)
    except subprocess.CalledProcessError:
        return f"FAILED {framework.extra} ({age}): the environment could not be made"
    names = ("matrix", "install", "examples", framework.module)
    files = [path for name in names if (ROOT / (path := f"tests/adapters/test_{name}.py")).exists()]
    what = versions(python, framework)
    print(f"\n=== {framework.extra} ({age}): {what}", flush=True)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", *files, *more],
        cwd=ROOT,
        check=False,
        env={**os.environ, "CALLOSUM_FRAMEWORK": framework.extra},
    )
    return f"{'passed' if done.returncode == 0 else 'FAILED'} {framework.extra} ({age}): {what}"


def of_today(frameworks: Sequence[Framework], day: int) -> list[Framework]:
    """Return the frameworks that the rota tests on this day of the year."""
    heavy = [one for one in frameworks if one.heavy]
    light = [one for one in frameworks if not one.heavy]
    first = day * LIGHT_A_DAY
    turns = [light[(first + turn) % len(light)] for turn in range(min(LIGHT_A_DAY, len(light)))]
    return [*turns, *([heavy[day % len(heavy)]] if heavy else [])]


def main(given: Sequence[str]) -> int:
    """Test the frameworks that are asked for; return 1 if a test failed."""
    known = with_servers()
    parser = argparse.ArgumentParser(prog="make adapters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", nargs="*", help=f"one of {', '.join(known)} (default: all)")
    parser.add_argument("--age", choices=AGES, action="append", help="only this version (default: both)")
    parser.add_argument("--rota", action="store_true", help="only those whose turn it is today, as in CI")
    parser.add_argument("-k", metavar="EXPRESSION", help="only these tests, as for pytest")
    chosen = parser.parse_args(given)
    if unknown := [name for name in chosen.framework if name not in known]:
        parser.error(f"{unknown[0]}: expected one of {', '.join(known)}")
    frameworks = [known[name] for name in chosen.framework] or list(known.values())
    if chosen.rota:
        day = dt.datetime.now(dt.UTC).timetuple().tm_yday
        frameworks = of_today(frameworks, day)
        left = ", ".join(name for name, one in known.items() if one not in frameworks)
        print(f"the rota of day {day}: {', '.join(one.extra for one in frameworks)}; not today: {left or 'none'}")
    more = ["-k", chosen.k] if chosen.k else []
    lines = [tested(one, age, more) for one in frameworks for age in chosen.age or AGES]
    print("", *lines, sep="\n")
    return int(any(line.startswith("FAILED") for line in lines))


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--disable-pip-version-check", "-qq"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
