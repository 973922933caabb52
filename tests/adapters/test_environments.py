"""Which versions of a framework are tested, and when."""

from __future__ import annotations

from tests.adapters.environments import BOUND, of_today, oldest, requirements
from tests.adapters.harness import every_framework


def test_each_framework_has_an_extra_whose_lower_bounds_can_be_installed() -> None:
    for extra in every_framework():
        required = requirements(extra)
        assert required
        assert all(BOUND.match(one) for one in required), f"{extra}: every package needs a lower bound"


def test_the_oldest_version_is_the_lower_bound() -> None:
    assert oldest(["langchain>=1.4", "langgraph >= 1.2,<2", "strands-agents[otel]>=1.62"]) == [
        "langchain==1.4",
        "langgraph==1.2",
        "strands-agents[otel]==1.62",
    ]


def test_the_rota_comes_to_every_framework() -> None:
    frameworks = list(every_framework().values())
    met = {one.extra for day in range(1, len(frameworks) + 1) for one in of_today(frameworks, day)}
    assert met == every_framework().keys()
