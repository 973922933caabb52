"""The telemetry page is true: its code runs, and its tables list everything there is."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"(?:gen_ai|callosum)\.[a-z_.]+|error\.type")


@pytest.mark.parametrize("code", BLOCKS, ids=["logging", "providers", "variables", "prometheus"])
def test_code_on_the_page_runs(code: str, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        # nothing listens at the default address: nothing may be sent there
        env={**clean, "PYTHONPATH": str(ROOT), "OTEL_METRICS_EXPORTER": "none"},
    )
    assert ran.returncode == 0, ran.stderr
    assert re.search('execute_tool github_prs|tool.completed|github_prs"}', ran.stdout + ran.stderr) or "otlp" in code


def test_tables_name_exactly_the_attributes_and_metrics() -> None:
    sources = [ROOT / "callosum" / "telemetry" / f"{name}.py" for name in ("opentelemetry", "metrics")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    written = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    named = {name for row in TEXT.splitlines() if row.startswith("|") for name in re.findall(r"`([^`]+)`", row)}
    there = {name for name in written if DOTTED.fullmatch(name)}
    assert {name for name in named if DOTTED.fullmatch(name)} == there
    assert len(there) > 25


def test_table_names_every_prometheus_metric() -> None:
    source = (ROOT / "callosum" / "telemetry" / "prometheus.py").read_text("utf-8")
    metrics = set(re.findall(r'"(callosum_[a-z_]+)"', source))
    named = {name.removesuffix("_total") for name in re.findall(r"^\| `(callosum_[a-z_]+)`", TEXT, re.MULTILINE)}
    assert named == metrics
