"""The campaigns: which processes work on what, and which faults happen to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from chaos.checker import meet
from chaos.estate import Engine
from chaos.files import change_database, cut_log
from chaos.history import Event
from chaos.scene import (
    Fault,
    Scene,
    crash_postgres,
    crash_redis,
    end_backends,
    fail_disk,
    fill_redis,
    freeze_postgres,
    freeze_redis,
    hang_server,
    kill_server,
    kill_worker,
    restart_read_only,
    set_clock,
    stall_server,
    stall_worker,
    starve_server,
    stop_answering,
    through,
)
from chaos.worker import KINDS, clock_of

_NETWORK: Final = (through("delay"), through("silent"), through("reset"))
_BITS: Final = through("corrupt")
_CHANGES: Final = tuple(
    change_database(how) for how in ("removed", "replaced by an empty one", "replaced by an older one")
)
_DAY: Final = 86_400.0
_HOUR: Final = 3_600.0


class Campaign(NamedTuple):
    """One campaign. ``stage`` starts workers and servers; ``faults`` happen to them.

    ``counts`` returns the number of faults, by kind, that the history itself contains. ``load`` is the minimum time in
    seconds. With ``checked`` False, bits are flipped where no component can notice, so the only check is that all
    workers continue. With ``settles``, a fault waits until all workers have recovered from the previous one. ``ttl`` is
    the length of a lease in seconds. Decisions below ``tier`` may be lost. With ``timed`` False, the store may follow a
    wrong clock once no lease is open. With ``spools``, reports and cancellations that clients could not send must
    arrive later. With ``often``, a thorough run counts the campaign's faults.
    """

    name: str
    engine: Engine
    stage: Callable[[Scene], None]
    faults: Sequence[Fault] = ()
    counts: Callable[[Scene, Sequence[Event]], Mapping[str, int]] | None = None
    load: float = 1.5
    checked: bool = True
    settles: bool = False
    ttl: float = 1.0
    tier: int = 0
    timed: bool = True
    spools: bool = False
    often: bool = False


# --- Stages -------------------------------------------------------------------------------------------


def embedded(scene: Scene) -> None:
    """Start sessions with their own gates on one file."""
    scene.spawn(4, ties=True)


def torn(scene: Scene) -> None:
    """Start the negative control: gates that read in one transaction and write in another."""
    scene.spawn(4, broken_store="torn", apart=0.0, kinds={"lock": 1}, places=1)


def unwatched(scene: Scene) -> None:
    """Start the negative control: gates that never check that the database is still the acknowledged one."""
    scene.spawn(4, broken_store="unwatched")


def one_server(scene: Scene) -> None:
    """Start clients of one server over a file."""
    scene.serve()
    scene.spawn(4, urls=(scene.sites[0].url(),))


def impatient_clients(scene: Scene) -> None:
    """Start clients that wait for one second and send nothing twice. Two of them spool where the server looks."""
    scene.serve()
    plan = {"urls": (scene.sites[0].url(),), "deadline": 1.0, "tries": 1, "kinds": {**KINDS, "note": 40}}
    scene.spawn(2, spool=str(scene.sites[0].state), **plan)
    scene.spawn(2, **plan)


def server_on_a_faulty_disk(scene: Scene) -> None:
    """Start clients of one server whose disk can be made to fail. Two of them give up before the disk works again."""
    scene.serve(faulty_disk=True)
    urls = (scene.sites[0].url(),)
    scene.spawn(2, urls=urls)
    scene.spawn(2, urls=urls, deadline=0.5, tries=1)


def jumping_clock(scene: Scene) -> None:
    """Start gates in their own processes on one file. The clock of one jumps an hour ahead while they work."""
    clock_of(scene.folder).write_bytes(b"\0")
    scene.spawn(3)
    scene.spawn(1, ahead=_HOUR, jumps=True)


def _on_postgres(scene: Scene) -> None:
    scene.store = scene.estate.database.address(scene.estate.name())


def _on_redis(scene: Scene) -> None:
    scene.store = scene.estate.cache.store(scene.estate.name())


def _two_servers(scene: Scene) -> None:
    """Start two servers on the store, clients that switch to the other server, and one gate in its own process."""
    scene.serve(2, store=scene.store)
    urls = tuple(site.url() for site in scene.sites)
    scene.spawn(2, urls=urls)
    scene.spawn(1, urls=urls[::-1])
    scene.spawn(1)


def servers_on_postgres(scene: Scene) -> None:
    """Start two servers on PostgreSQL."""
    _on_postgres(scene)
    _two_servers(scene)


def servers_on_redis(scene: Scene) -> None:
    """Start two servers on Redis."""
    _on_redis(scene)
    _two_servers(scene)


def gates_on_postgres(scene: Scene) -> None:
    """Start gates in their own processes on PostgreSQL."""
    _on_postgres(scene)
    scene.spawn(4, ties=True)


def gates_on_redis(scene: Scene) -> None:
    """Start gates in their own processes on Redis."""
    _on_redis(scene)
    scene.spawn(4, ties=True)


def wire_to_server(scene: Scene) -> None:
    """Put a proxy between clients and their server."""
    scene.serve()
    proxy = scene.proxy(("127.0.0.1", scene.sites[0].port))
    scene.spawn(4, urls=(scene.sites[0].url(proxy.port),))


def wire_to_postgres(scene: Scene) -> None:
    """Put a proxy between gates and PostgreSQL. One gate connects without it."""
    _on_postgres(scene)
    proxy = scene.proxy(("127.0.0.1", scene.estate.database.port))
    schema = scene.store.partition("schema=")[2]
    scene.spawn(3, store=scene.estate.database.address(schema, proxy.port, sslmode="disable"))
    scene.spawn(1)


def wire_to_redis(scene: Scene) -> None:
    """Put a proxy between gates and Redis. One gate connects without it."""
    _on_redis(scene)
    proxy = scene.proxy(("127.0.0.1", scene.estate.cache.port))
    prefix = scene.store.partition("prefix=")[2]
    scene.spawn(3, store=scene.estate.cache.store(prefix, proxy.port))
    scene.spawn(1)


def bits_over_https(scene: Scene) -> None:
    """Flip bits between clients and their server, over TLS."""
    scene.serve(tls=True)
    proxy = scene.proxy(("127.0.0.1", scene.sites[0].port))
    scene.spawn(3, urls=(scene.sites[0].url(proxy.port),), cafile=str(scene.estate.certificate[0]))


def bits_over_postgres_tls(scene: Scene) -> None:
    """Flip bits between gates and PostgreSQL, over TLS."""
    _on_postgres(scene)
    proxy = scene.proxy(("127.0.0.1", scene.estate.database.port))
    schema = scene.store.partition("schema=")[2]
    scene.spawn(3, store=scene.estate.database.address(schema, proxy.port, sslmode="require"))


def bits_over_redis_tls(scene: Scene) -> None:
    """Flip bits between gates and Redis, over TLS."""
    _on_redis(scene)
    proxy = scene.proxy(("127.0.0.1", scene.estate.cache.tls))
    prefix = scene.store.partition("prefix=")[2]
    scene.spawn(3, store=scene.estate.cache.store(prefix, proxy.port, tls=True))


def bits_over_http(scene: Scene) -> None:
    """Flip bits between clients and their server, where no component can notice a change that still makes sense."""
    scene.serve()
    proxy = scene.proxy(("127.0.0.1", scene.sites[0].port))
    scene.spawn(3, urls=(scene.sites[0].url(proxy.port),), broken=True)


def small_pool(scene: Scene) -> None:
    """Let sixteen threads and a server share two connections each."""
    _on_postgres(scene)
    scene.serve(1, store=f"{scene.store}&pool=2")
    scene.spawn(1, store=f"{scene.store}&pool=2", threads=16, apart=0.02)
    scene.spawn(1, urls=(scene.sites[0].url(),), threads=4)


def wrong_clock_at_server(scene: Scene) -> None:
    """Start clients whose clocks are a day off, one in each direction."""
    scene.serve()
    urls = (scene.sites[0].url(),)
    scene.spawn(1, urls=urls, ahead=_DAY)
    scene.spawn(1, urls=urls, ahead=-_DAY)
    scene.spawn(1, urls=urls)


def wrong_clock_on_postgres(scene: Scene) -> None:
    """Start gates on PostgreSQL whose machines' clocks are a day off."""
    _on_postgres(scene)
    _wrong_clocks(scene)


def wrong_clock_on_redis(scene: Scene) -> None:
    """Start gates on Redis whose machines' clocks are a day off."""
    _on_redis(scene)
    _wrong_clocks(scene)


def _wrong_clocks(scene: Scene) -> None:
    scene.spawn(1, ahead=_DAY)
    scene.spawn(1, ahead=-_DAY)
    scene.spawn(1)


def sets_on_sqlite(scene: Scene) -> None:
    """Start calls with two and three overlapping keys, trees among them, in every order."""
    scene.spawn(4, kinds={"set": 1}, apart=0.003)


def sets_on_postgres(scene: Scene) -> None:
    """Start the same on PostgreSQL."""
    _on_postgres(scene)
    scene.spawn(4, kinds={"set": 1}, apart=0.003)


def sets_on_redis(scene: Scene) -> None:
    """Start the same on Redis."""
    _on_redis(scene)
    scene.spawn(4, kinds={"set": 1}, apart=0.003)


# --- Faults in what the sessions do --------------------------------------------------------------------


def crossed(scene: Scene, events: Sequence[Event]) -> dict[str, int]:
    """Return how often two sessions asked at once for keys in opposite orders."""
    asked = [event for event in events if event.what == "invoke" and event.verb == "intercept"]
    ends = {(event.who, event.op): event.at for event in events if event.what != "invoke" and event.verb == "intercept"}
    found = 0
    live: list[Event] = []
    for event in asked:
        live = [one for one in live if ends.get((one.who, one.op), 0) > event.at]
        found += sum(_contrary(one.keys, event.keys) for one in live if one.who != event.who)
        live.append(event)
    return {"keys asked for in contrary orders": found}


def _contrary(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return True if a key that comes first in one comes later in the other, and the reverse."""
    places = [(a, b) for a, mine in enumerate(one) for b, theirs in enumerate(other) if meet((mine,), (theirs,))]
    return any(a < c and b > d for a, b in places for c, d in places)


def off(scene: Scene, events: Sequence[Event]) -> dict[str, int]:
    """Return how many answers sessions with a wrong clock got."""
    wrong = {name for name, plan in scene.plans.items() if plan.ahead}
    answers = sum(event.what == "answer" and event.who.partition(":")[0] in wrong for event in events)
    return {"answer to a process with a wrong clock": answers}


def crowded(scene: Scene, events: Sequence[Event]) -> dict[str, int]:
    """Return how often a process had more requests running than it has connections."""
    under_way: dict[str, int] = {}
    found = 0
    for event in events:
        if event.verb in ("begin", "write") or event.what == "note":
            continue
        name = event.who.partition(":")[0]
        under_way[name] = under_way.get(name, 0) + (1 if event.what == "invoke" else -1)
        found += event.what == "invoke" and under_way[name] > 2
    return {"more requests than connections": found}


def without_gate(scene: Scene, events: Sequence[Event]) -> dict[str, int]:
    """Return how many tier 4 calls were given up, reports were spooled, and calls ran without the gate."""
    tiers = {event.op: event.tier for event in events if event.what == "invoke" and event.verb == "intercept"}
    gone = [event for event in events if event.what == "unknown"]
    return {
        "tier-4 call given up": sum(event.verb == "intercept" and tiers[event.op] >= 4 for event in gone),
        "report spooled": sum(event.verb == "complete" for event in gone),
        "late call": sum(event.what == "note" and event.verb == "late" for event in events),
    }


_CUTS: Final = (cut_log("truncated"), cut_log("halved"), cut_log("removed"))
_GIVING_UP: Final[dict[str, Any]] = {"ttl": 5.0, "load": 3, "spools": True, "settles": True, "often": True}

CAMPAIGNS: Final = (
    Campaign("sqlite-killed", "sqlite", embedded, (kill_worker, stall_worker)),
    Campaign("sqlite-sets", "sqlite", sets_on_sqlite, counts=crossed),
    Campaign("server-killed", "sqlite", one_server, (kill_server, stall_server, kill_worker)),
    Campaign("server-network", "sqlite", wire_to_server, _NETWORK, settles=True),
    Campaign("server-bits-tls", "sqlite", bits_over_https, (_BITS,)),
    Campaign("server-bits", "sqlite", bits_over_http, (_BITS,), checked=False),
    Campaign("server-clock", "sqlite", wrong_clock_at_server, counts=off),
    Campaign(
        "server-hung",
        "sqlite",
        impatient_clients,
        (hang_server,),
        without_gate,
        **_GIVING_UP,
    ),
    Campaign(
        "server-away",
        "sqlite",
        impatient_clients,
        (stop_answering,),
        without_gate,
        **_GIVING_UP,
    ),
    Campaign(
        "server-disk",
        "sqlite",
        server_on_a_faulty_disk,
        (fail_disk("sync"), fail_disk("full"), fail_disk("read-only"), starve_server, restart_read_only),
        **_GIVING_UP,
    ),
    Campaign(
        "sqlite-clock", "sqlite", jumping_clock, (set_clock, kill_worker), counts=off, timed=False, load=3, often=True
    ),
    Campaign("sqlite-changed", "sqlite", embedded, _CHANGES, tier=3, load=3),
    Campaign("server-changed", "sqlite", one_server, _CHANGES, tier=3, load=3, often=True),
    Campaign("server-log", "sqlite", one_server, _CUTS, tier=3, load=3, settles=True, often=True),
    Campaign("postgres-backends", "postgres", servers_on_postgres, (end_backends, kill_worker)),
    Campaign("postgres-crash", "postgres", servers_on_postgres, (crash_postgres, kill_server)),
    Campaign("postgres-network", "postgres", wire_to_postgres, _NETWORK, settles=True),
    Campaign("postgres-bits-tls", "postgres", bits_over_postgres_tls, (_BITS,)),
    Campaign("postgres-pool", "postgres", small_pool, (end_backends,), counts=crowded),
    Campaign("postgres-clock", "postgres", wrong_clock_on_postgres, (kill_worker,), counts=off),
    Campaign("postgres-sets", "postgres", sets_on_postgres, (end_backends,), counts=crossed),
    Campaign("postgres-frozen", "postgres", servers_on_postgres, (freeze_postgres,), often=True),
    Campaign("redis-frozen", "redis", servers_on_redis, (freeze_redis, fill_redis), often=True),
    Campaign("redis-crash", "redis", servers_on_redis, (crash_redis, kill_server)),
    Campaign("redis-killed", "redis", gates_on_redis, (kill_worker, stall_worker)),
    Campaign("redis-network", "redis", wire_to_redis, _NETWORK, settles=True),
    Campaign("redis-bits-tls", "redis", bits_over_redis_tls, (_BITS,)),
    Campaign("redis-clock", "redis", wrong_clock_on_redis, (kill_worker,), counts=off),
    Campaign("redis-sets", "redis", sets_on_redis, counts=crossed),
)
"""In this order. ``TORN`` and ``UNWATCHED`` are not among them: they must fail."""
TORN: Final = Campaign("torn", "sqlite", torn, (kill_worker,))
UNWATCHED: Final = Campaign("unwatched", "sqlite", unwatched, _CHANGES, tier=3)
