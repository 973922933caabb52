"""Exporters: events of the corpus for other systems. Each one is a subscriber and knows nothing else of the gate.

================= =================================================================
module            content
================= =================================================================
opentelemetry     events as spans and metrics, into given providers
otlp              providers that send them, set up by the ``OTEL_...`` variables
metrics           the metrics of ``opentelemetry``
prometheus        events as metrics in a registry of ``prometheus_client``
logs              events as lines of the standard ``logging``
labels            limits the number of labels that sessions' names can create
================= =================================================================
"""
