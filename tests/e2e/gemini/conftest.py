"""Run the real Gemini CLI in its own home, with a model scripted by the test."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.home import Home
from tests.e2e.hosts import installed, program_in
from tests.e2e.models import Model

SETTINGS: dict[str, Any] = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}


class GeminiHome(Home):
    """A home for Gemini CLI with settings of its user."""

    def __init__(self, folder: Path, program: Path, scripted: Model) -> None:
        node = shutil.which("node")
        assert node, "Gemini CLI needs Node"
        options = "--model gemini-2.5-pro --approval-mode=yolo --skip-trust --output-format json --prompt".split()
        environ = {
            "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": scripted.address, "GEMINI_CLI_NO_RELAUNCH": "true",
        }  # fmt: skip
        super().__init__(folder, "gemini", [node, str(program), *options], environ)
        self.settings = self.home / ".gemini" / "settings.json"
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps(SETTINGS, indent=2))


@pytest.fixture(scope="session")
def program() -> Path:
    return program_in(installed("gemini"), "@google/gemini-cli/bundle/gemini.js")


@pytest.fixture
def bare(tmp_path: Path, program: Path, scripted: Model) -> Iterator[GeminiHome]:
    """Return a home whose Gemini CLI is not gated."""
    made = GeminiHome(tmp_path, program, scripted)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def home(bare: GeminiHome) -> GeminiHome:
    """Return a home whose Gemini CLI is gated."""
    bare.callosum("install", "gemini", "--yes")
    return bare
