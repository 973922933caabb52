"""What leaves the corpus for other systems. Each is a subscriber, and knows nothing else of the gate.

================= =================================================================
module            what
================= =================================================================
opentelemetry     events as spans and metrics, into given providers
otlp              providers that send them, as the ``OTEL_...`` variables say
measures          the metrics of ``opentelemetry``
prometheus        events as metrics in a registry of ``prometheus_client``
logs              events as lines of the standard ``logging``
names             keeps what sessions call things from becoming labels without end
================= =================================================================
"""
