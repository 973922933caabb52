"""MCP: any server with the gate before its tools, and a server through which an agent asks the gate.

::

    wrap ──┬── child     a server that is started: lines, signals, its end
           ├── remote    a server at an address (Streamable HTTP)
           └── tap ──┬── messages   JSON-RPC, read as far as needed
                     ├── identity   who acts, and what a tool is called
                     ├── catalogue  what ``tools/list`` says
                     ├── outcome    how a call ended
                     ├── rounds     calls that take several rounds: forms for a person, a server's questions
                     └── keeper     asks, reports, renews, decides without the gate
    server           ``callosum mcp`` alone
    install          ``mcpServers`` of a host's configuration, there and back

What a wrap needs is small and loads fast; the SDK is loaded by ``server`` alone.
"""
