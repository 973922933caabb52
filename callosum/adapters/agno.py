"""Agno: ``install`` for every agent and team of the process.

::

    install(gate)

Agno's tool hooks get no call id, and a sync run skips async hooks. So this replaces ``FunctionCall.execute`` and
``aexecute``, through which all tools run. They are not official extension points; each version is tested.

The session is Agno's (``session_id`` of the run, otherwise one of the agent object). A refusal is the tool's error:
only the sentence.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, Unpack

from agno.exceptions import RunCancelledException
from agno.tools.function import FunctionCall, FunctionExecutionResult

from callosum.adapters._seams import noting, put, untouched
from callosum.adapters.core import (
    Adapter,
    Attempt,
    FrameworkCall,
    KeptResult,
    Noted,
    Options,
    Refused,
    RunningCall,
    turn_of,
)
from callosum.gate import Gate

Result: TypeAlias = FunctionExecutionResult

_execute, _aexecute = untouched(FunctionCall, "execute"), untouched(FunctionCall, "aexecute")


def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around every tool of this process's agents and teams. Return a function that removes it.

    Another call replaces the gate. ``options`` are those of ``callosum.adapters.core.Options``.
    """
    adapter = Adapter(gate, **options)

    def execute(self: FunctionCall) -> Result:
        attempt = _Call(self)
        begun = adapter.begin(attempt)
        if not isinstance(begun, RunningCall):
            return attempt.answered(begun)
        try:
            with attempt.running(begun):
                result = _execute(self)
        except BaseException as error:
            begun.fail(_known(error))
            raise
        if inspect.isgenerator(result.result):  # the tool runs while its results are consumed
            return attempt.becomes(result, _taken(result.result, begun))
        return attempt.becomes(result, begun.end(result).result)

    async def aexecute(self: FunctionCall) -> Result:
        attempt = _Call(self)
        begun = await adapter.abegin(attempt)
        if not isinstance(begun, RunningCall):
            return attempt.answered(begun)
        try:
            with attempt.running(begun):
                result = await _aexecute(self)
        except BaseException as error:
            await begun.afail(_known(error))
            raise
        if inspect.isasyncgen(result.result):
            return attempt.becomes(result, _ataken(result.result, begun))
        if inspect.isgenerator(result.result):
            return attempt.becomes(result, _taken(result.result, begun))
        return attempt.becomes(result, (await begun.aend(result)).result)

    return put({(FunctionCall, "execute"): execute, (FunctionCall, "aexecute"): aexecute})


class _Call(Attempt[Result]):
    def __init__(self, call: FunctionCall) -> None:
        self._call = call
        self.noted: Noted = Noted()

    def seen(self) -> FrameworkCall:
        call, function = self._call, self._call.function
        context = function._run_context  # noqa: SLF001 - where Agno says what a call belongs to
        turn, read = turn_of(getattr(context, "messages", None) or [], _calls, call.call_id)
        return FrameworkCall(
            tool=function.name,
            params=dict(call.arguments or {}),
            call_id=call.call_id,
            turn=turn or getattr(context, "run_id", None) or "",
            read=read,
            thread=getattr(context, "session_id", None),
            run=getattr(context, "run_id", None),
            description=function.description,
            schema=function.parameters,
        )

    def refused(self, no: Refused) -> Result:
        self._call.error = no.sentence
        return FunctionExecutionResult(status="failure", error=no.sentence)

    def warned(self, result: Result, sentence: str) -> Result:
        if not isinstance(result.result, str):
            return result
        return result.model_copy(update={"result": f"{result.result}\n\n{sentence}"})

    def said(self, result: Result) -> Any:
        return result.result

    def failed(self, _result: Result) -> bool:
        return bool(_result.status != "success")

    def raised(self) -> BaseException | None:
        return None if self.noted.error is None else _known(self.noted.error)

    def answered(self, begun: Refused | KeptResult[Result]) -> Result:
        """Return what the model reads if the tool does not run."""
        result = begun.said(self)
        self._call.result = result.result
        return result

    def becomes(self, result: Result, value: Any) -> Result:
        """Return the result with another value."""
        result.result = self._call.result = value
        return result

    @contextmanager
    def running(self, begun: RunningCall[Result]) -> Iterator[None]:
        """Run the tool with the params that the gate put in place of its arguments, and record what it raises."""
        call, function = self._call, self._call.function
        if begun.params is not None:
            call.arguments = dict(begun.params)
        run = function.entrypoint
        if run is not None and not inspect.isgeneratorfunction(run) and not inspect.isasyncgenfunction(run):
            call.function = copy.copy(function)  # concurrent calls share the function
            call.function.entrypoint = noting(run, lambda: self.noted)
        try:
            yield
        finally:
            call.function = function


def _taken(results: Iterator[Any], begun: RunningCall[Result]) -> Iterator[Any]:
    try:
        yield from results
    except BaseException as error:
        begun.fail(_known(error))
        raise
    begun.end(FunctionExecutionResult(status="success"))


async def _ataken(results: AsyncIterator[Any], begun: RunningCall[Result]) -> AsyncIterator[Any]:
    try:
        async for one in results:
            yield one
    except BaseException as error:
        await begun.afail(_known(error))
        raise
    await begun.aend(FunctionExecutionResult(status="success"))


def _known(error: BaseException) -> BaseException:
    """Return the error to report. An exception of a cancelled run leaves open what the tool has done."""
    return asyncio.CancelledError() if isinstance(error, RunCancelledException) else error


def _calls(message: Any) -> tuple[str, list[Any]]:
    return message.id, [call.get("id") for call in message.tool_calls or () if isinstance(call, Mapping)]
