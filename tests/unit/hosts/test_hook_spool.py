"""Test which records a hook process may write without the packages that recognise secrets."""

import pytest

from callosum.hosts import hook_spool
from tests.support.cpu import cpu_within

TOKEN = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE"


@pytest.mark.parametrize(("text", "secretive"), [("src/a.py", False), (TOKEN, True), ("read " + TOKEN, True)])
def test_possible_secret_is_found(text: str, secretive: bool) -> None:
    assert hook_spool._secretive(text) is secretive


@pytest.mark.parametrize("piece", ["a", "/", "-"])
def test_text_too_long_to_search_counts_as_secret_at_once(piece: str) -> None:
    with cpu_within(0.05):
        assert hook_spool._secretive(piece * 4_000_000)
        hook_spool._secretive(piece * 4096)
