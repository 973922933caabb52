"""MCP: put the gate before the tools of any server, and serve tools by which an agent asks the gate.

::

    wrap ──┬── child        a server that is started: lines, signals, exit
           ├── remote       a server at a URL (Streamable HTTP)
           └── proxy ──┬── messages     JSON-RPC, read as far as needed
                       ├── identity     the caller, and the names of servers and tools
                       ├── catalogue    the content of ``tools/list``
                       ├── outcome      how a call ended
                       ├── rounds       calls that take several rounds: forms for a person, a server's questions
                       └── gate_client  asks, reports, renews leases, decides while the gate is unreachable
    server ── tool_handlers   ``callosum mcp`` without a command
    install                   ``mcpServers`` of a host's configuration

The modules that a wrap needs are small and load fast; only ``server`` loads the SDK.
"""
