"""The documentation site: it builds without a warning, loads nothing from elsewhere, and a broken page fails."""

import json
import re
from pathlib import Path

import pytest

import callosum
from callosum.server.openapi import document
from website.__main__ import ROOT, STAGED, render
from website.reference import command_page, http_page, rule_fields_page, rule_schema, topics, write_reference
from website.staging import OUTSIDE_DOCS, mend, stage


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    stage(ROOT, root / STAGED)
    write_reference(root / STAGED / "reference")
    (root / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text("utf-8"), "utf-8")
    assert render(root, root / "built") == 0
    return root / "built"


def test_site_builds_strictly_and_search_finds_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert len(built) > 30
    assert built <= found


def test_site_loads_nothing_from_another_host(site: Path) -> None:
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]+src="?(?:https?:)?//|<link[^>]+href="?(?:https?:)?//""")
    for path in site.rglob("*.html"):
        # the canonical address of a page is none that a browser loads
        assert not loads.search(path.read_text("utf-8")), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", path.read_text("utf-8")), path


@pytest.mark.parametrize(
    ("page", "complaints"),
    [
        (
            "[a page](nowhere.md) [a heading](#nowhere) [`Gone`][callosum.Gone] ![](no.png)",
            ["nowhere.md", "#nowhere", "callosum.Gone", "no.png"],
        ),
        ("::: callosum.gone", ["callosum.gone"]),
    ],
)
def test_broken_page_fails_the_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], page: str, complaints: list[str]
) -> None:
    (tmp_path / STAGED).mkdir(parents=True)
    (tmp_path / STAGED / "index.md").write_text(f"# Start\n\n{page}\n", "utf-8")
    settings = (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{settings}nav: [index.md]\n", "utf-8")
    assert render(tmp_path, tmp_path / "built") != 0
    said = "".join(capfd.readouterr())
    lines = [line for line in said.splitlines() if line.startswith(("WARNING", "ERROR"))]
    for complaint in complaints:
        assert any(complaint in line for line in lines), (complaint, said)


def test_links_that_leave_docs_lead_to_the_staged_page(tmp_path: Path) -> None:
    pages = {**OUTSIDE_DOCS, "docs/hosts.md": "hosts.md"}
    text = "[figures](../bench/README.md#hosts) [all](../examples/) [one](../examples/plain_function.py)\n```\n[a](b.md)\n```"
    mended = mend(text, "docs/hosts.md", "hosts.md", pages, ROOT, tmp_path)
    assert mended.splitlines()[0] == "[figures](figures.md#hosts) all [one](files/examples/plain_function.py)"
    assert "[a](b.md)" in mended
    assert (tmp_path / "files/examples/plain_function.py").exists()


def test_reference_has_every_public_name_endpoint_command_and_field() -> None:
    named = [name for names in topics().values() for name in names]
    assert sorted(named) == sorted(set(callosum.__all__))
    assert "Other" not in topics(), "give the new name a topic in website/reference.py"
    described = document()
    http = http_page(described)
    for path, methods in described["paths"].items():
        for method in methods:
            assert f"## `{method.upper()} {path}`" in http
    commands = command_page()
    for command in ("callosum status", "callosum rules try", "callosum store copy", "callosum install"):
        assert f"`{command}`" in commands
    fields = rule_fields_page(rule_schema())
    for field in rule_schema()["properties"]:
        assert f"| `{field}` |" in fields
