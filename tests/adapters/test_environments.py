"""Which versions of a framework are tested, and when."""

from __future__ import annotations

from tests.adapters.environments import BOUND, of_today, oldest, requirements, with_servers


def test_each_framework_has_an_extra_whose_lower_bounds_can_be_installed() -> None:
    for extra in with_servers():
        required = requirements(extra)
        assert required
        assert all(BOUND.match(one) for one in required), f"{extra}: every package needs a lower bound"


def test_the_oldest_version_is_the_lower_bound() -> None:
    assert oldest(["langchain>=1.4", "langgraph >= 1.2,<2", "strands-agents[otel]>=1.62"]) == [
        "langchain==1.4",
        "langgraph==1.2",
        "strands-agents[otel]==1.62",
    ]


def test_daily_rotation_covers_every_framework_with_a_server() -> None:
    frameworks = list(with_servers().values())
    met = {one.extra for day in range(1, len(frameworks) + 1) for one in of_today(frameworks, day)}
    assert met == with_servers().keys()
