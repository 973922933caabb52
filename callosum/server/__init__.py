"""The gate behind HTTP: its endpoints, the event stream, and the server around them.

``run`` opens the sockets and starts the server. ``app`` holds the endpoints, ``async_gate`` drives the gate's
operations on the event loop, ``writer`` commits waiting requests in one transaction, and ``stream`` sends events.
``security``, ``tokens`` and ``protocol`` refuse what is not permitted. docs/server.md draws the way of one call.
"""
