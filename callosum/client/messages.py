"""Write requests (JSON bodies and queries) and read responses (the model's structs).

Nothing here touches a socket. Only input that would reach the gate with another meaning is refused here; everything
else is for the gate to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from callosum import wire
from callosum.client.errors import BadResponse, DeadlineExceeded, GateBusy, TransportError
from callosum.client.spool import FIELDS
from callosum.client.transport import HttpResponse
from callosum.errors import ConfigError, StoreUnavailable, Unconfirmed
from callosum.model import MAX_KEY, Call, Decision, GateRequest, LockResult, Report, Tier
from callosum.operations import OPERATIONS, GateOperation

_MAX_TEXT: Final = 2000
_NOT_DONE: Final = frozenset((408, 425, 429))

T = TypeVar("T")


# --- reading answers -----------------------------------------------------------------------------------


def _reader(decoder: msgspec.json.Decoder[T]) -> Callable[[HttpResponse], T]:
    """Return a function that decodes a response of this shape and raises the error that any other response means."""

    def read(answer: HttpResponse) -> T:
        if answer.status != 200:
            raise fault_of(answer)
        return _decoded(decoder, answer.body)

    return read


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadResponse(f"the answer is not what a gate says: {error}") from error


def read_decision(answer: HttpResponse) -> Decision:
    """Return the decision, after checking that it does not contradict itself."""
    if answer.status != 200:
        raise fault_of(answer)
    decision = _decoded(_DECISION, answer.body)
    if decision.proceed is not decision.verdict.proceed or not 0 <= decision.tier <= Tier.CRITICAL:
        raise BadResponse("the answer is not what a gate says: it contradicts itself")
    return decision


def read_health(answer: HttpResponse) -> Mapping[str, Any]:
    """Return what a gate reports about itself, healthy or not."""
    found = _decoded(_ANY, answer.body) if answer.status in (200, 503) else None
    if isinstance(found, dict) and "status" in found:
        return found
    raise fault_of(answer)


class RequestRefused(ConfigError):
    """The gate refused a request with a 4xx: it decided nothing, and asking again changes nothing."""


def fault_of(answer: HttpResponse) -> Exception:
    """Return the error that a response without a value means: bad input, store unreachable, or not a gate."""
    status = answer.status
    try:
        fault = _FAULT.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BadResponse(f"status {status} without a word of a gate")
    text = fault.error[:_MAX_TEXT]
    if status == 503 and fault.at == wire.OVERLOADED:
        return GateBusy(text, sent=False)
    if status == 503 and fault.id is not None:
        return Unconfirmed(text, id=fault.id)
    if status == 503:
        return StoreUnavailable(text) if fault.at == "store" else BadResponse(text, sent=False)
    if 400 <= status < 500 and status not in _NOT_DONE:
        return RequestRefused(text, fault.at)
    again = answer.headers.get(b"retry-after", b"1")[:10].decode("latin-1")
    come_back = f" (come back in {again} s)" if status in _NOT_DONE and again.isdecimal() else ""
    return BadResponse(f"status {status}: {text}{come_back}", sent=status not in _NOT_DONE)


def weight(error: TransportError | StoreUnavailable) -> int:
    """Return how much an error says: a decision that may be in force most, a try that found no time left nothing."""
    if isinstance(error, StoreUnavailable):
        return 3 + isinstance(error, Unconfirmed)
    return 2 if isinstance(error, BadResponse) else error.sent or not isinstance(error, DeadlineExceeded)


_DECISION: Final = msgspec.json.Decoder(Decision)
_FAULT: Final = msgspec.json.Decoder(wire.ErrorResponse)
_ANY: Final = msgspec.json.Decoder()
READERS: Final[Mapping[Any, Callable[[HttpResponse], Any]]] = {
    kind: _reader(msgspec.json.Decoder(kind)) for kind in {row.answer for row in OPERATIONS}
}
"""The function that reads the reply of an operation, by the reply's type."""
read_report: Final[Callable[[HttpResponse], Report]] = READERS[Report]
read_locked: Final[Callable[[HttpResponse], LockResult]] = READERS[LockResult]
read_accepted: Final = _reader(msgspec.json.Decoder(wire.Accepted))
read_any: Final = _reader(_ANY)


# --- writing requests ----------------------------------------------------------------------------------


def _plainer(value: Any) -> Any:
    """Replace a value that JSON cannot hold by its type, as the embedded gate does."""
    return dict(value) if isinstance(value, Mapping) else f"<{type(value).__name__}>"


encode: Final = msgspec.json.Encoder(enc_hook=_plainer).encode
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


def written(value: Any, refuse: Callable[[], object] | None = None) -> bytes:
    """Return the body of a request.

    If it cannot be written, or is long, ``refuse`` looks for the faulty field and raises.
    """
    try:
        body = encode(value)
    except _UNWRITABLE as error:
        plainer = _with_plain_params(value)
        if plainer is not None:
            return written(plainer, refuse)
        if refuse is not None:
            refuse()
        _refuse_fields(value)
        raise ConfigError(f"cannot be written as JSON: {error}", at="body") from error
    if len(body) > _LONG:
        if refuse is not None:
            refuse()
        if len(body) > wire.MAX_BODY:
            raise ConfigError(f"{len(body)} bytes as JSON, at most {wire.MAX_BODY} are taken", at="body")
    return body


def _with_plain_params(value: Any) -> Any:
    """Return the call or report with params that JSON can hold, None if the params are not the fault."""
    if not isinstance(value, Call | wire.Complete) or not isinstance(value.params, Mapping):
        return None
    from callosum.gate.check import plain_params  # noqa: PLC0415 - only for unusual params

    plain = plain_params(value.params)
    same = plain.keys() == value.params.keys() and all(plain[name] is value.params[name] for name in plain)
    return None if same else replace(value, params=plain)


_LONG: Final = 4_000_000
"""Size from which params may be too long, in bytes."""


def written_report(report: wire.Complete) -> bytes:
    """Write a report whatever the tool returned: the outcome, with as much of the result as can be sent."""
    try:
        body = encode(report)
    except _UNWRITABLE:
        body = b""
    if body and len(body) <= wire.MAX_BODY:
        return body
    from callosum.redact import summarise  # noqa: PLC0415 - only for unusual results

    result = report.result
    kept = summarise({"result": result}, mode="full" if not body else "summary")["result"]
    error = result.get("error") if isinstance(result, Mapping) else None
    if isinstance(error, str) and isinstance(kept, dict):
        kept["error"] = error[:1000].encode("utf-8", "replace").decode()
    return written(replace(report, result=kept))


def sent_as(row: GateOperation, request: GateRequest[Any]) -> tuple[str, bytes | None]:
    """Return the target and body of a request. Raises ``ConfigError`` for values that would arrive changed."""
    _check(request)
    if isinstance(request, wire.Approve):
        answer = wire.ApprovalAnswer(
            approve=request.agrees,
            by=request.by,
            channel=request.channel,
            note=request.note,
            namespace=request.namespace,
        )
        return row.path.format(id=request.id), written(answer)
    if row.method == "POST":
        return row.path, written(request)
    if row.method == "GET" and type(request) is not row.query:
        request = _as_query(row, request)
    fields = msgspec.to_builtins(request, enc_hook=str)
    path = row.path.format(key=quoted(fields.pop("contextKey"))) if "{key}" in row.path else row.path
    return f"{path}{query_of(fields)}", None


def _as_query(row: GateOperation, request: Any) -> Any:
    """Return the request in the form of its endpoint, whose names and defaults may differ from those of JSON-RPC."""
    kind: Any = row.query
    taken = kind.__struct_fields__
    for name in request.__struct_fields__:
        if name not in taken and getattr(request, name) is not None:
            raise ConfigError(f"{row.endpoint} does not take it", at=name)
    return kind(**{name: getattr(request, name) for name in taken if hasattr(request, name)})


def query_of(fields: Mapping[str, object]) -> str:
    """Return the query string, leaving out fields that are None. A tuple becomes one pair for each item."""
    said = [
        (name, str(one).lower() if isinstance(one, bool) else str(one))
        for name, value in fields.items()
        for one in (value if isinstance(value, tuple) else (value,))
        if one is not None
    ]
    try:
        return f"?{'&'.join(f'{name}={quoted(value)}' for name, value in said)}" if said else ""
    except UnicodeEncodeError:
        _refuse_fields(dict(said))
        raise


def quoted(text: str) -> str:
    """Percent-encode every character that has a meaning in a URL."""
    from urllib.parse import quote  # noqa: PLC0415 - a hook's requests have neither a query nor a key in the path

    return quote(text, safe="")


def plain(call: Call) -> dict[str, Any]:
    """Return what the spool keeps of a call in wire form, with its params unchanged."""
    said = dict(zip(Call.__struct_encode_fields__, msgspec.structs.astuple(call), strict=False))
    return {**msgspec.to_builtins({name: said[name] for name in FIELDS}, enc_hook=_plainer), "params": call.params}


# --- refusing what cannot be sent ----------------------------------------------------------------------
# The gate checks its input and names the field. This section only refuses values that would arrive changed, with the
# gate's own messages; the gate's module is imported only when there is something to refuse.


def refuse_call(call: Call) -> None:
    """Raise ``ConfigError`` for a call that the gate would refuse."""
    from callosum.gate import check  # noqa: PLC0415

    check.check_call(call)
    check.with_json_params(call)


def check_times(call: Call) -> None:
    """Check the times of a call: ``wait`` sets the deadline, and JSON would turn an infinite ``timeout`` into null."""
    _check_wait(call.wait)
    if isinstance(call.timeout, float) and not isfinite(call.timeout):
        refuse_call(call)


def _check_wait(wait: float) -> None:
    """Check that ``wait`` is bounded, because it sets the deadline."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= wire.MAX_WAIT:
        raise ConfigError(f"expected 0 to {wire.MAX_WAIT:.0f} seconds, got {wait!r}", at="wait")


def check_ttl(ttl: float | None) -> None:
    """Refuse infinity and NaN, which JSON would turn into null."""
    if isinstance(ttl, float) and not isfinite(ttl):
        raise ConfigError(f"expected a number of seconds, got {ttl!r}", at="ttl")


def check_id(id: int) -> None:
    """Refuse an id that the path or a 64-bit reader would change."""
    if type(id) is not int or not 0 < id < 2**63:
        raise ConfigError(f"expected the id of a decision, got {id!r}", at="id")


def refuse_key(key: str) -> None:
    """Refuse a key that would miss the endpoint: it is part of the path, so it cannot be empty or endless."""
    if type(key) is not str or not 0 < len(key) <= MAX_KEY or not key.isprintable():
        from callosum.gate.check import key_of  # noqa: PLC0415

        key_of(key)


def _check(request: GateRequest[Any]) -> None:
    if isinstance(request, wire.Renew | wire.Resolve | wire.Approve):
        check_id(request.id)
    if isinstance(request, wire.Renew):
        check_ttl(request.ttl)
    if isinstance(request, wire.JournalQuery):
        _check_wait(request.wait)
    if isinstance(request, wire.ReleaseAt):
        refuse_key(request.context_key)
    if isinstance(request, wire.ReadStatus) and request.context_key:
        refuse_key(request.context_key)


def _refuse_fields(value: Any) -> None:
    """Raise ``ConfigError`` naming the first field that cannot be written."""
    if isinstance(value, Mapping):
        fields = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, msgspec.Struct):
        fields = [(one.encode_name, getattr(value, one.name)) for one in msgspec.structs.fields(value)]
    else:
        fields = [(f"[{place}]", item) for place, item in enumerate(value)]
    for name, item in fields:
        try:
            encode(item)
        except _UNWRITABLE as error:
            raise ConfigError(f"cannot be written as JSON: {error}", at=name) from error
