"""Test the headers that a user gives for a server."""

import pytest

from callosum.errors import ConfigError
from callosum.hosts.mcp.headers import read_headers

ENVIRON = {"KEY": "k-1", "BAD": "a\nb", "EMPTY": ""}


def test_values_come_from_the_environment() -> None:
    found = read_headers(["Authorization: Bearer ${KEY}", "X-A:b:c", "X-E: ${EMPTY}"], ["X-Key=KEY"], ENVIRON)
    assert found == {"Authorization": "Bearer k-1", "X-A": "b:c", "X-E": "", "X-Key": "k-1"}


@pytest.mark.parametrize(
    ("given", "named", "word"),
    [
        (["no colon"], [], "Name: value"),
        (["A: ${NONE}"], [], "NONE"),
        (["A b: x"], [], "name of a header"),
        ([": x"], [], "name of a header"),
        (["Host: x"], [], "transport"),
        (["mcp-session-ID: x"], [], "transport"),
        (["Mcp-Param-X: x"], [], "transport"),
        (["A: ${BAD}"], [], "cannot stand"),
        (["A: é"], [], "cannot stand"),
        ([], ["A"], "NAME=VARIABLE"),
        ([], ["A=NONE"], "NONE"),
    ],
)
def test_errors_hide_the_value(given: list[str], named: list[str], word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_headers(given, named, ENVIRON)
    assert word in str(caught.value)
    assert caught.value.at in ("--header", "--header-env")
    assert "a\nb" not in str(caught.value)
