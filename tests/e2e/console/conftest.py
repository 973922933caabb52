"""Chromium of the distribution, and the console opened in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import pytest

from tests.support.serving import Server
from tests.support.visiting import Visitor, linked

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None and os.environ.get("CALLOSUM_BROWSER") == "required":
    raise AssertionError("Chromium is not here, and its tests must run")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - where there is a browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    server: Server, browser: Browser, *, scheme: Literal["light", "dark"] = "light", width: int = 1200
) -> Iterator[tuple[Page, Visitor]]:
    """The console's first page, opened by its link, and what the terminal shows."""
    visitor = Visitor("")
    with linked(server.state, visitor, server.post) as (secret, _):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        faults: list[str] = []
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.goto(f"{visitor.address}/console/open?link={secret}")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("heading", name="Waiting", exact=True).wait_for()
        yield page, visitor
        context.close()
        assert faults == []
