"""``callosum store copy`` to and from a Redis Cluster, whose namespaces are on several servers."""

from contextlib import closing
from pathlib import Path

import pytest

from callosum.settings import Settings
from callosum.stores import copy as copies
from callosum.stores.opening import open_store
from callosum.testing.script import StoreScript
from tests.acceptance.test_redis_cluster import SPACES, servers  # noqa: F401  the fixture
from tests.acceptance.test_store_copy import engines, fill
from tests.support.redis_server import RedisServer


@pytest.mark.parametrize("source_kind", ["sqlite", "cluster"])
def test_copy_to_a_cluster_has_all_namespaces(
    tmp_path: Path,
    servers: list[RedisServer],  # noqa: F811
    source_kind: str,
) -> None:
    """Copy a store to a cluster and back, and compare the contents."""
    names = ("first", "there", "back")
    kinds = ("sqlite", "cluster", "sqlite") if source_kind == "sqlite" else ("cluster", "sqlite", "cluster")
    chain = [
        Settings(state=tmp_path, store=f"sqlite:///{name}.db" if kind == "sqlite" else servers[0].url())
        for name, kind in zip(names, kinds, strict=True)
    ]
    with closing(open_store(chain[0])) as store:
        for name in SPACES:
            fill(StoreScript(store, name), 12)
        before = [store.entries(namespace=name) for name in SPACES]
    for number in range(2):
        with engines(chain[number], chain[number + 1]) as (source, target):
            copied = copies.copy(source, target)
            assert copied.verified, copied.first
            assert copied.mended == 0
    with closing(open_store(chain[-1])) as store:
        assert [store.entries(namespace=name) for name in SPACES] == before
        newest = max(entry.seq for entries in before for entry in entries)
        assert StoreScript(store, SPACES[0]).act("mira", "doc:new") > max(e.seq for e in before[0])
        assert store.now() >= newest
