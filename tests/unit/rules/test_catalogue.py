"""A catalogue of tools as one meets them, labelled before anybody saw how they are judged.

Names and descriptions are told from memory of what MCP servers and agent tool kits offer; they are in no data
that the rules were made on. What is known to come out wrong is listed: it may not grow.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from callosum.model import Call, Classification
from callosum.rules import RuleSet

RULES = RuleSet.parse(secret=b"secret")

TABLE: Final = Path(__file__).with_name("catalogue.txt").read_text("utf-8")
"""Name, label, description. ``r``: only looks, ``w``: changes something, ``rw``: either may be said; then the tiers
that a careful reader would accept, one digit each."""


class Tool(NamedTuple):
    name: str
    effect: str
    tiers: str
    description: str


def _tools() -> list[Tool]:
    found = []
    for line in TABLE.strip().splitlines():
        if not line.startswith("#"):
            name, label, description = line.split(" | ", 2)
            effect, _, tiers = label.partition(" ")
            found.append(Tool(name, effect, tiers, description))
    return found


TOOLS: Final = _tools()


def judged(tool: Tool, *, described: bool = True) -> Classification:
    return RULES.classify(Call("a", tool.name, description=tool.description if described else None))


def wrong(label: str, *, described: bool) -> set[str]:
    said = {"r": "read", "w": "write"}[label]
    return {tool.name for tool in TOOLS if tool.effect == label and judged(tool, described=described).effect != said}


RAISED: Final = {
    # a verb of doing before what is only looked up
    "run_soql_query", "run_report", "post_search_results", "esql",
    # no verb that is known
    "firecrawl_map", "sequentialthinking", "uniswap_quote", "sonos_now_playing", "reddit_hot_posts", "s3_presign_url",
    "openai_moderate_text",
    # a verb of doing in another sense
    "lsp.hover",
}  # fmt: skip
"""Looks that are taken for writes."""
RAISED_BY_NAME: Final = {
    "conversations_replies", "pods_top", "learn_shopify_api", "mr_discussions", "maps_elevation", "airflow_dag_runs",
    "etherscan_contract_abi", "tesla_vehicle_data",
}  # fmt: skip
"""The same where no description tells."""
LOST_BY_NAME: Final = {"mastodon_boost_status"}
"""Writes that are taken for looks where no description tells."""
TIERS: Final = {"uninstall_helm_chart", "text_to_speech", "input_text", "call_aws", "wise_fund_transfer"}
"""Tools whose tier nobody would defend."""


def test_catalogue_is_large_and_has_reads_and_writes() -> None:
    labels = [tool.effect for tool in TOOLS]
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert labels.count("r") > 200
    assert labels.count("w") > 200


def test_no_write_is_called_a_read() -> None:
    assert wrong("w", described=True) == set()
    assert wrong("w", described=False) <= LOST_BY_NAME


def test_only_known_reads_are_classified_as_writes() -> None:
    assert wrong("r", described=True) <= RAISED
    assert wrong("r", described=False) <= RAISED | RAISED_BY_NAME


def test_tiers_are_accepted() -> None:
    assert {tool.name for tool in TOOLS if tool.tiers and str(judged(tool).tier) not in tool.tiers} <= TIERS


@pytest.mark.parametrize("style", ["snake", "kebab", "dotted", "camel", "mcp", "upper"])
def test_spelling_does_not_matter(style: str) -> None:
    """The same words in another convention get the same effect."""
    for tool in TOOLS:
        parts = tool.name.replace("-", "_").replace(".", "_").split("_")
        if not tool.name.islower() or "/" in tool.name or "" in parts or any(not one.isalpha() for one in parts):
            continue
        name = {
            "snake": "_".join(parts),
            "kebab": "-".join(parts),
            "dotted": ".".join(parts),
            "camel": parts[0] + "".join(one.capitalize() for one in parts[1:]),
            "mcp": "mcp__server__" + "_".join(parts),
            "upper": "_".join(parts).upper(),
        }[style]
        assert judged(tool._replace(name=name)).effect == judged(tool).effect, name
