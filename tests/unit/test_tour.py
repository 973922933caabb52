"""The tour through the code names files and names that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")
PATHS = sorted(set(re.findall(r"`((?:callosum|tests|model)/[\w./]+)`", TOUR)))
NAMES = re.findall(r"`(callosum/[\w./]+\.py)`: `([\w.]+)`((?: and `[\w.]+`)?)", TOUR)


@pytest.mark.parametrize("path", PATHS)
def test_file_of_the_tour_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, name, _ in NAMES])
def test_name_of_the_tour_is_defined_where_it_says(path: str, name: str) -> None:
    source = (ROOT / path).read_text("utf-8")
    for part in name.split("."):
        assert re.search(
            rf"^\s*(?:(?:async )?def {part}\b|class {part}\b|{part}(?:: [^=]+)? = )", source, re.MULTILINE
        ), part


def test_tour_names_enough_files() -> None:
    """This makes sure that the patterns above cannot miss everything at once."""
    assert len(PATHS) > 35
    assert len(NAMES) > 15


PARTS = re.findall(r"^\| `(\w+/)` \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text("utf-8"), re.MULTILINE)
"""Packages and their descriptions in the table of the architecture page."""


@pytest.mark.parametrize(("package", "description"), PARTS)
def test_modules_in_the_table_of_the_architecture_exist(package: str, description: str) -> None:
    folder = ROOT / "callosum" / package
    for name in re.findall(r"`(\w+)` \(", description):
        assert list(folder.rglob(f"{name}.py")) or (folder / name).is_dir(), name


def test_table_of_the_architecture_names_enough_packages() -> None:
    assert len(PARTS) > 12
