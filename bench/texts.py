"""What agents write, made up: each text unlike the others and as long as a message is."""

from __future__ import annotations

import random

WORDS = (
    "adapter agenda archive backlog balance branch budget cache calendar campaign chart client column "
    "contract copy customer dashboard deadline default delivery deploy design draft engine estimate event "
    "export feature feedback field figure filter folder forecast gateway graph handbook header index "
    "invoice issue journal kernel label layout ledger letter limit margin memo metric mirror module "
    "network notebook notice offer order outline package panel partner pattern pipeline plan policy "
    "printer profile project proposal query queue quote record refund region release report request "
    "review rollout sample schedule schema script season sensor series session sketch snapshot source "
    "sprint statement storage summary supplier survey table template ticket timeline topic trace "
    "training transfer update upload vendor version volume warehouse widget window workshop"
).split()


_CHANCE = random.Random(1)
_TEXTS = tuple(" ".join(_CHANCE.choices(WORDS, k=12)) for _ in range(4093))


def message(count: int) -> str:
    """The ``count``-th text: a dozen words, and a number that no other has."""
    return f"{_TEXTS[count % len(_TEXTS)]} ({count})"
