"""The shipped gate contract on the embedded gate with a store in memory and in a file, and on the clients of a server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from callosum.client import AsyncCallosumClient, CallosumClient
from callosum.gate import Gate, LocalGate
from callosum.model import Report
from callosum.rulebook import Rulebook
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Role, Tokens
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from callosum.testing.gate_contract import RULES, GateContract
from tests.support.serving import hosted
from tests.support.world import gate_time


class OverStore(GateContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def gate(self, tmp_path: Path, clock: ManualClock, store: Store) -> Iterator[Gate]:
        rules = tmp_path / "rules.json"
        rules.write_text(RULES)
        with (
            gate_time(clock),
            LocalGate(settings=Settings(state=tmp_path), store=store, rules=Rulebook(rules), sleep=clock.sleep) as gate,
        ):
            yield gate


class TestOverMemory(OverStore):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        return MemoryStore(clock=clock)


class TestOverSqlite(OverStore):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        return SqliteStore(tmp_path / "gate.db", clock=clock)


class _WithApprover:
    """An agent's client, with a second client for approvals that has a person's token."""

    def __init__(self, agent: Any, person: CallosumClient) -> None:
        self._agent, self._person = agent, person

    def approve(self, *arguments: Any, **more: Any) -> Report:
        return self._person.approve(*arguments, **more)

    def deny(self, *arguments: Any, **more: Any) -> Report:
        return self._person.deny(*arguments, **more)

    def resolve(self, *arguments: Any, **more: Any) -> Report:
        return self._person.resolve(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)


class _Awaited:
    """An async client whose methods are awaited one after another on an event loop of its own."""

    def __init__(self, client: AsyncCallosumClient) -> None:
        self._client = client
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def awaited(*arguments: Any, **more: Any) -> Any:
            return await method(*arguments, **more)

        return lambda *arguments, **more: self._runner.run(awaited(*arguments, **more))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class OverServer(OverStore):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        return SqliteStore(tmp_path / "gate.db", clock=clock)

    @pytest.fixture
    def agent(self, address: str) -> Iterator[Any]:
        raise NotImplementedError

    @pytest.fixture
    def token(self, tmp_path: Path) -> str:
        return Tokens(tmp_path / TOKENS).add("anna", role=Role.APPROVER)

    @pytest.fixture
    def address(self, tmp_path: Path, clock: ManualClock, store: Store, token: str) -> Iterator[str]:
        rules = tmp_path / "rules.json"
        rules.write_text(RULES)
        with (
            gate_time(clock),
            LocalGate(settings=Settings(state=tmp_path), store=store, rules=Rulebook(rules)) as gate,
            hosted(gate, tmp_path) as address,
        ):
            yield address

    @pytest.fixture
    def gate(self, address: str, agent: Any, token: str) -> Iterator[Gate]:
        with CallosumClient(address, token=token, deadline=10) as person:
            yield cast("Gate", _WithApprover(agent, person))


class TestOverClient(OverServer):
    @pytest.fixture
    def agent(self, address: str) -> Iterator[Any]:
        with CallosumClient(address, deadline=10) as client:
            yield client


class TestOverAsyncClient(OverServer):
    @pytest.fixture
    def agent(self, address: str) -> Iterator[Any]:
        client = _Awaited(AsyncCallosumClient(address, deadline=10))
        yield client
        client.close()
