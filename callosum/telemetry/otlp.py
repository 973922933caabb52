"""Send spans and metrics over OTLP, set up by the standard ``OTEL_...`` variables.

::

    telemetry = from_environment(corpus)
    ...
    telemetry.close()  # sends what is left; so does the end of the process
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.errors import ConfigError
from callosum.telemetry.opentelemetry import AT, MISSING, OpenTelemetry

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
except ImportError as error:
    raise ConfigError(MISSING, at=AT) from error

logger = logging.getLogger("callosum")

CLOSING: Final = 2.0
"""Seconds that ``close`` waits for unsent data."""
SELDOM: Final = 60.0
"""Seconds in which a message of the exporters is logged once."""


def from_environment(corpus: Corpus, *, content: bool = False) -> OpenTelemetry:
    """Send spans and metrics over OTLP/HTTP, as the standard variables say; ``content`` as in ``OpenTelemetry``.

    Without variables the receiver is ``http://localhost:4318``. Batches are sent by separate threads: a slow or
    unreachable receiver costs the emitter nothing, and what it does not take in time is dropped. That is logged once a
    minute. The service's name is ``callosum`` unless one is set.

    ``close()``, and the normal end of the process, send the rest and shut everything down within ``CLOSING`` seconds;
    what could not be sent by then is lost.

    Raises ``ConfigError`` if another protocol or exporter than OTLP over HTTP (or ``none``) is requested, or a variable
    has an invalid value. If the extra is not installed, importing this module raises ``ImportError``.
    """
    spans, numbers = _sends("TRACES"), _sends("METRICS")
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "callosum"}))
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    try:
        exporter = _SpanExporter()
        if spans:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if numbers else []
    except (ValueError, RuntimeError) as error:
        tracers.shutdown()
        raise ConfigError(f"a variable OTEL_... cannot be used: {error}", at=AT) from error
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    return _Sending(corpus, tracers, exporter, meters, content=content)


def _sends(signal: str) -> bool:
    """Return True if spans or metrics are sent.

    Raises ``ConfigError`` for an exporter or protocol that is not supported.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    name = f"OTEL_{signal}_EXPORTER"
    exporter = os.environ.get(name, "").strip() or "otlp"
    if exporter not in ("otlp", "none"):
        raise ConfigError(f"expected otlp or none, got {exporter!r}", at=name)
    if exporter == "none":
        return False
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(name, "").strip()
        if protocol:
            if protocol != "http/protobuf":
                raise ConfigError(f"expected http/protobuf, got {protocol!r}", at=name)
            break
    return True


class _SpanExporter(OTLPSpanExporter):
    """An exporter that can be told to give up: the SDK would try to send each waiting batch for half a minute."""

    _over = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE if self._over else super().export(spans)

    def shutdown(self) -> None:
        """End the wait between attempts; nothing is sent any more. Idempotent."""
        if not self._over:
            self._over = True
            super().shutdown()  # type: ignore[no-untyped-call]


class _Sending(OpenTelemetry):
    """``OpenTelemetry`` with its own providers, which it shuts down.

    The thread that shuts the spans down exists from the start, because an interpreter that is ending starts no threads.
    """

    def __init__(
        self, corpus: Corpus, tracers: TracerProvider, exporter: _SpanExporter, meters: MeterProvider, *, content: bool
    ) -> None:
        super().__init__(corpus, tracer_provider=tracers, meter_provider=meters, content=content)
        self._tracers = tracers
        self._exporter = exporter
        self._meters = meters
        self._seldom = RateLimitedFilter()
        self._closing = threading.Event()
        self._closer = threading.Thread(target=self._end_spans, name="callosum-telemetry", daemon=True)
        self._closer.start()
        atexit.register(self.close)

    def close(self) -> None:
        super().close()
        if self._closing.is_set():
            return
        ends = time.monotonic() + CLOSING
        self._closing.set()
        atexit.unregister(self.close)
        try:
            self._meters.shutdown(timeout_millis=CLOSING * 1000)
        except Exception:  # the SDK raises exactly this class when the time is over
            logger.debug("telemetry: the last metrics were not sent in time", exc_info=True)
        if not self._closer.is_alive():  # a forked child does not have the thread
            self._end_spans()
        self._closer.join(max(0.0, ends - time.monotonic()))
        self._exporter.shutdown()

    def _end_spans(self) -> None:
        self._closing.wait()
        self._tracers.shutdown()
        self._seldom.close()


class RateLimitedFilter(logging.Filter):
    """Pass each message of the exporters once in ``SELDOM`` seconds, whatever its values.

    It is added to their loggers when it is created, and removed by ``close``. ``clock`` is for tests.
    """

    LOGGERS: Final = (
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.sdk._shared_internal",
        "opentelemetry.sdk.metrics._internal.export",
        "opentelemetry.sdk.trace.export",
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}
        for name in self.LOGGERS:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if this message is due again."""
        now, key = self._clock(), (record.name, str(record.msg))
        if now - self._said.get(key, -SELDOM) < SELDOM:
            return False
        self._said[key] = now
        return True

    def close(self) -> None:
        """Remove it from the loggers."""
        for name in self.LOGGERS:
            logging.getLogger(name).removeFilter(self)
