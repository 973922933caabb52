"""The stage of one campaign: its workers and servers, what happens to them, and how they come to rest."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from multiprocessing.popen_forkserver import Popen
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
import psycopg

from callosum.errors import StoreChanged
from callosum.gate import LocalGate
from callosum.model import Entry, State
from callosum.settings import Settings
from callosum.stores.base import Store
from chaos import worker
from chaos.checker import Violation
from chaos.estate import RULES, Estate, Site
from chaos.history import Event, Recorder, Verb, read
from chaos.proxy import Mode, Proxy
from chaos.resource import Written
from tests.support.faultydisk import Fault as DiskFault
from tests.support.faultydisk import FaultyDisk

PATIENCE: Final = 30.0
"""Seconds within which all workers must work again once nothing is broken, and within which they must end."""
_GAP: Final = (0.15, 0.5)
"""Minimum and maximum seconds from one fault to the next."""
_PAGE: Final = 5000
_MIND: Final = "mind"
"""File with what the campaign itself did."""
_REQUESTS: Final = frozenset({"intercept", "lock", "renew", "complete", "release"})

Fault = Callable[["Scene"], None]
"""Breaks something for a while and repairs it."""


class Scene:
    """One campaign's stage. ``store`` is the URL of its store, "" for the file in ``state``.

    ``ttl`` is the length of a lease in seconds, and ``places`` the number of things that the workers compete for.
    """

    def __init__(self, estate: Estate, name: str, seed: int, ttl: float, places: int = 6) -> None:
        self.estate = estate
        self.name = name
        self.ttl = ttl
        self.places = places
        self.seed = seed
        self.random = random.Random(f"{seed}/{name}")
        self.folder = estate.folder / f"{name}-{estate.name()}"
        self.folder.mkdir()
        self.rules = self.folder / "rules.json"
        self.rules.write_text(RULES)
        self.state = self.folder
        self.store = ""
        self.sites: list[Site] = []
        self.proxies: list[Proxy] = []
        self.faults: Counter[str] = Counter()
        self.found: list[Violation] = []
        self.tier = 0
        self.reports = True
        self._recorder = Recorder(worker.history_of(self.folder, _MIND))
        self._workers: dict[str, BaseProcess] = {}
        self.plans: dict[str, worker.Plan] = {}
        self._stuck: set[tuple[str, int]] = set()
        self._spawned = 0
        multiprocessing.set_forkserver_preload(["chaos.run", "psycopg_pool", "redis"])

    def note(self, verb: Verb, text: str, who: str = _MIND) -> None:
        """Record what the campaign does."""
        self._recorder.tell(who, "note", verb, text=text)

    def say(self, rule: str, told: str) -> None:
        """Add a violation that the history does not show."""
        self.found.append(Violation(rule, told, time.monotonic_ns()))

    # --- Processes ---

    def spawn(self, count: int = 1, **plan: Any) -> None:
        """Start worker processes. What a plan leaves out comes from the scene."""
        for _ in range(count):
            self._spawned += 1
            name = f"w{self._spawned}"
            facts = {"store": self.store, "ttl": self.ttl, "seed": self.seed, "folder": str(self.folder)}
            self._start(worker.Plan(name=name, **{**facts, "places": self.places, **plan}))

    def _start(self, plan: worker.Plan) -> None:
        process = WorkerProcess(target=worker.run, args=(plan,), name=plan.name)
        process.start()
        self._workers[plan.name] = process
        self.plans[plan.name] = plan

    def serve(self, count: int = 1, *, store: str = "", tls: bool = False, faulty_disk: bool = False) -> None:
        """Start servers. Without a store, a single server has its file in its own state folder.

        They share ``content.key``, as all servers on a store must: otherwise a call that is repeated at another server
        is another call.
        """
        secret = os.urandom(32)
        for number in range(count):
            state = self.folder / f"state{number}"
            state.mkdir(mode=0o700)
            descriptor = os.open(state / "content.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, secret)
            os.close(descriptor)
            certificate = self.estate.certificate if tls else None
            disk = FaultyDisk(state) if faulty_disk else None
            self.sites.append(Site(state, self.rules, self.ttl, store=store, certificate=certificate, disk=disk))
        if not store:
            self.state = self.sites[0].state

    def proxy(self, target: tuple[str, int] | str, **more: Any) -> Proxy:
        """Put a proxy in front of something and return it."""
        proxy = Proxy(target, seed=self.seed, **more)
        self.proxies.append(proxy)
        return proxy

    # --- Faults ---

    def disturb(
        self,
        seconds: float,
        faults: Sequence[Fault],
        *,
        settles: bool = False,
        each: int = 1,
        most: float = math.inf,
    ) -> None:
        """Let one fault follow another for ``seconds``. The seed decides which faults, and the time between them.

        Each sort happens once before any happens twice. Each happens ``each`` times, however short ``seconds`` is, but
        more than once only until ``most`` seconds have passed. With ``settles``, a fault waits until all workers have
        recovered from the previous one.
        """
        began = time.monotonic()
        ends = began + seconds
        turns = [fault for _ in range(each) for fault in self.random.sample(list(faults), len(faults))]
        number = 0
        while time.monotonic() < ends or number < len(turns):
            if number >= len(faults) and time.monotonic() >= began + max(most, seconds):
                break
            gap = self.random.uniform(*_GAP)
            time.sleep(gap if number < len(turns) else max(0.0, min(gap, ends - time.monotonic())))
            if not turns or (number >= len(turns) and time.monotonic() >= ends):
                continue
            fault = turns[number] if number < len(turns) else self.random.choice(list(faults))
            fault(self)
            if settles:
                self.working(f"the end of a fault ({fault.__name__})")
            number += 1

    def heal(self) -> None:
        """Declare that nothing is broken from now on."""
        for proxy in self.proxies:
            proxy.set("plain")
        self.note("healed", "")

    def kill_worker(self) -> None:
        """Kill a session's process at any point, and start another in its place."""
        name = self.random.choice(sorted(self._workers))
        process = self._workers.pop(name)
        # What it does until the signal arrives counts as after its death, which shortens what it surely held.
        self.note("killed", f"pid {process.pid}", who=name)
        process.kill()
        process.join()
        self.hit("worker killed")
        self._spawned += 1
        self._start(msgspec.structs.replace(self.plans[name], name=f"w{self._spawned}"))

    def stall_worker(self) -> None:
        """Stop a session's process until its lease has run out, then let it continue."""
        name = self.random.choice(sorted(self._workers))
        pid = self._workers[name].pid
        if pid is None:
            return
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.ttl * 1.2)
        os.kill(pid, signal.SIGCONT)
        self.hit("worker stopped")

    def hit(self, kind: str, count: int = 1) -> None:
        """Count faults of a kind that were really injected."""
        if count:
            self.faults[kind] += count
            self.note("fault", kind)

    def pids(self) -> list[int]:
        """Return the process ids of the workers."""
        return [process.pid for process in self._workers.values() if process.pid is not None and process.is_alive()]

    def through(self, proxy: Proxy, mode: Mode, seconds: tuple[float, float] = (0.3, 0.8)) -> None:
        """Switch a proxy to a mode for a while."""
        before = proxy.faults
        proxy.set(mode)
        time.sleep(self.random.uniform(*seconds))
        proxy.set("plain")
        self.hit(f"network: {mode}", proxy.faults - before)

    # --- Coming to rest ---

    def working(self, since: str) -> None:
        """Wait until every session thread got an answer after ``since``. A stuck thread is not waited for again."""
        waiting = {(name, number) for name in self._workers for number in range(self.plans[name].threads)}
        waiting -= self._stuck
        sizes = {name: self._size(name) for name in self._workers}
        until = time.monotonic() + PATIENCE
        while waiting and time.monotonic() < until:
            time.sleep(0.02)
            for name, process in list(self._workers.items()):
                if not process.is_alive():
                    waiting = {one for one in waiting if one[0] != name}
                    continue
                with worker.history_of(self.folder, name).open("rb") as file:
                    file.seek(sizes[name])
                    new = file.read().rpartition(b"\n")[0]
                sizes[name] += len(new) + bool(new)
                for line in new.splitlines():
                    event = msgspec.json.decode(line, type=Event)
                    if event.what == "answer" and event.verb in _REQUESTS and not _alone(event):
                        number = int(event.who.partition(":")[2].partition(".")[0])
                        waiting.discard((name, number))
        for name, number in sorted(waiting):
            self.say("recovery", f"{name}:{number} had no answer for {PATIENCE:.0f} s since {since}")
        self._stuck |= waiting

    def _size(self, name: str) -> int:
        path = worker.history_of(self.folder, name)
        if not path.exists():
            path.touch()
        # Start after the end of a whole line.
        return path.read_bytes().rfind(b"\n") + 1

    def end(self) -> None:
        """End the workers. One that does not end is shown with its stacks and killed."""
        (self.folder / worker.STOP).touch()
        until = time.monotonic() + PATIENCE
        stuck = {name for name, _ in self._stuck}
        for name, process in self._workers.items():
            process.join(1.0 if name in stuck else max(0.0, until - time.monotonic()))
            if process.is_alive():
                self._show_hang(name, process)
            elif process.exitcode:
                errors = self.folder / f"stacks-{name}"
                said = errors.read_text()[-4000:] if errors.exists() else "before it began"
                self.say("no crash", f"worker {name} ended with {process.exitcode}:\n{said}")

    def _show_hang(self, name: str, process: BaseProcess) -> None:
        stacks = self.folder / f"stacks-{name}"
        if process.pid is not None:
            os.kill(process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 2
        while not stacks.stat().st_size and time.monotonic() < deadline:
            time.sleep(0.02)
        self.say("no hang", f"worker {name} did not end:\n{stacks.read_text()[:4000]}")
        process.kill()
        process.join()

    def close(self) -> None:
        """Stop the servers and proxies. A server that does not end properly is a violation."""
        for site in self.sites:
            wrong = site.close()
            if wrong:
                self.say("servers", wrong)
        for proxy in self.proxies:
            proxy.stop()
        self._recorder.close()

    def abandon(self) -> None:
        """Leave nothing running, whatever happened."""
        for process in self._workers.values():
            if process.is_alive():
                process.kill()
        for site in self.sites:
            if site.server.process.poll() is None:
                site.server.kill()

    def rest(self) -> list[Entry]:
        """Wait until all leases have ended by themselves, and return the journal."""
        settings = Settings(state=self.state, store=self.store, rules=self.rules, lease_ttl=self.ttl)
        with LocalGate(settings=settings) as gate:
            gate.take_in()
            until = time.monotonic() + 2 * self.ttl + 10
            while gate.store.live(None, (State.OPEN, State.QUEUED, State.ASKED)):
                gate.sweep()
                if time.monotonic() > until:
                    left = gate.store.live(None, (State.OPEN, State.QUEUED, State.ASKED))
                    self.say("rest", f"{len(left)} are still live, the first is {left[0]}")
                    break
                time.sleep(0.02)
            # Unknown actions are resolved by checking, here the counters.
            done = {one.op for writes in self.counters().values() for one in writes}
            journal = journal_of(gate.store)
            calls = {entry.seq: str(entry.body.get("callId", "")) for entry in journal}
            try:
                for action in gate.store.live(None, (State.UNKNOWN,)):
                    gate.resolve(action.id, happened=calls.get(action.id, "") in done, by="chaos")
            except StoreChanged as lost:
                self.say("rest", str(lost))
                return journal
            left = gate.store.live(None, list(State))
            if left:
                self.say("rest", f"{len(left)} cannot be resolved, the first is {left[0]}")
            health = gate.store.check()
            if health.problems:
                self.say("rest", "; ".join(health.problems))
            return journal_of(gate.store)

    def history(self) -> list[Event]:
        """Return what all processes saw."""
        return read(sorted(self.folder.glob("history-*.jsonl")))

    def counters(self) -> dict[str, list[Written]]:
        """Return what the leases guarded."""
        return {place: worker.counter_of(self.folder, place).writes() for place in worker.PLACES}


class WorkerProcess(ForkServerProcess):
    """A process that several threads may watch: whenever a campaign starts one, it polls those of all campaigns."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802 - named by multiprocessing
        return _PolledOnce(process_obj)


class _PolledOnce(Popen):
    """Reads the exit code once. A second thread would find its pipe at the end, which ``Popen`` takes for 255."""

    def __init__(self, process_obj: BaseProcess) -> None:
        self._polling = threading.Lock()
        super().__init__(process_obj)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        with self._polling:
            return super().poll(flag)


def _alone(answer: Event) -> bool:
    """Return True if a client let a call through by itself, without the gate."""
    return answer.verb == "intercept" and answer.ok and not answer.id


def journal_of(store: Store) -> list[Entry]:
    """Return the whole journal."""
    entries: list[Entry] = []
    while page := store.entries(after=entries[-1].seq if entries else 0, limit=_PAGE):
        entries += page
    return entries


# --- Faults of the servers ---------------------------------------------------------------------------


def kill_worker(scene: Scene) -> None:
    """Kill a session's process."""
    scene.kill_worker()


def stall_worker(scene: Scene) -> None:
    """Stop a session's process for longer than its lease."""
    scene.stall_worker()


def kill_server(scene: Scene) -> None:
    """Kill a server, which restarts at its address."""
    site = scene.random.choice(scene.sites)
    site.server.kill()
    scene.hit("server killed")
    time.sleep(scene.random.uniform(0, 0.2))
    site.start()


def stop_answering(scene: Scene) -> None:
    """Kill a server, and restart it after its clients have given up their requests."""
    site = scene.random.choice(scene.sites)
    site.server.kill()
    scene.hit("server away")
    time.sleep(scene.random.uniform(1.1, 1.6))
    site.start()


def stall_server(scene: Scene) -> None:
    """Stop a server for a while."""
    _stop_server(scene, (0.3, 0.9), "server stopped")


def hang_server(scene: Scene) -> None:
    """Stop a server for longer than its clients wait for an answer, then let it continue."""
    _stop_server(scene, (1.1, 1.6), "server hung")


def _stop_server(scene: Scene, seconds: tuple[float, float], kind: str) -> None:
    pid = scene.random.choice(scene.sites).server.process.pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(scene.random.uniform(*seconds))
    os.kill(pid, signal.SIGCONT)
    scene.hit(kind)


def fail_disk(what: DiskFault) -> Fault:
    """Return a fault: the disk of a server fails for a while."""

    def fault(scene: Scene) -> None:
        site = scene.random.choice(scene.sites)
        assert site.disk is not None
        with site.disk.failing(what):
            time.sleep(scene.random.uniform(0.1, 0.8))
        scene.hit(f"disk: {what}")

    fault.__name__ = what
    return fault


def restart_read_only(scene: Scene) -> None:
    """Kill a server, start it while its database cannot be written, and let it be written again."""
    site = scene.random.choice(scene.sites)
    assert site.disk is not None
    site.server.kill()
    with site.disk.failing("read-only"):
        site.start()
        time.sleep(scene.random.uniform(0.1, 0.5))
    scene.hit("server started on a read-only database")


def starve_server(scene: Scene) -> None:
    """Take away the file descriptors that a server has not opened yet, for a while."""
    pid = scene.random.choice(scene.sites).server.process.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (len([*Path(f"/proc/{pid}/fd").iterdir()]), most))
    time.sleep(scene.random.uniform(0.1, 0.5))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    scene.hit("no file descriptors")


def freeze_redis(scene: Scene) -> None:
    """Stop the Redis for a while: it keeps its connections and answers nothing."""
    _freeze(scene, scene.estate.cache.pid, "Redis")


def fill_redis(scene: Scene) -> None:
    """Leave the Redis without memory for a while: it refuses writes."""
    with scene.estate.cache.client() as client:
        client.config_set("maxmemory", 1)
        time.sleep(scene.random.uniform(0.2, 0.6))
        client.config_set("maxmemory", 0)
    scene.hit("Redis out of memory")


def set_clock(scene: Scene) -> None:
    """Set the clocks of the processes whose plan says so an hour ahead, or back to the right time."""
    with worker.clock_of(scene.folder).open("r+b", buffering=0) as clock:  # the processes have it mapped
        wrong = clock.read(1) == b"\1"
        os.pwrite(clock.fileno(), b"\0" if wrong else b"\1", 0)
    scene.hit("clock set an hour ahead or back")


def freeze_postgres(scene: Scene) -> None:
    """Stop all processes of the PostgreSQL for a while."""
    _freeze(scene, scene.estate.database.pid, "PostgreSQL")


def _freeze(scene: Scene, pid: int, name: str) -> None:
    processes = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    time.sleep(scene.random.uniform(0.5, 1.5))
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    scene.hit(f"{name} frozen")


def end_backends(scene: Scene) -> None:
    """End connections in the middle of their work, as an administrator can."""
    with psycopg.connect(scene.estate.database.conninfo, autocommit=True) as connection:
        ended = connection.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where application_name = 'callosum' and random() < 0.5"
        ).fetchone()
    scene.hit("backend ended", ended[0] if ended else 0)


def crash_postgres(scene: Scene) -> None:
    """Crash the database, which recovers from its log."""
    database = scene.estate.database
    scene.tier, scene.reports = 3, False  # any other store may lose its last moments with the server (docs/stores.md)
    database.stop(hard=True)
    scene.hit("PostgreSQL crashed")
    time.sleep(scene.random.uniform(0, 0.3))
    database.start()


def crash_redis(scene: Scene) -> None:
    """Kill the Redis, which reads its log again."""
    cache = scene.estate.cache
    cache.kill()
    scene.hit("Redis killed")
    time.sleep(scene.random.uniform(0, 0.3))
    cache.start()


def through(mode: Mode, seconds: tuple[float, float] = (0.3, 0.8)) -> Fault:
    """Return a fault of the network."""

    def fault(scene: Scene) -> None:
        scene.through(scene.random.choice(scene.proxies), mode, seconds)

    fault.__name__ = mode
    return fault
