"""The gate behind HTTP: the seeds' five endpoints and what stands around them.

``run`` opens the sockets and starts it, ``app`` holds the endpoints, ``served`` drives the gate's operations
on the event loop, ``writer`` commits what waits in one transaction, ``stream`` sends events. ``security``,
``tokens`` and ``protocol`` keep out what does not belong. docs/server.md draws one call all the way.
"""
