"""The hosts in which agents live, each gated at the seam that holds there.

::

    a host with command hooks   the hook ──────── POST /hooks/HOST ── Dispatcher ── the gate
                                   │ no answer: offline.py, by the tier table
    a host with plugins         its plugin (JavaScript) ── POST /intercept, /complete
    any MCP client              mcp/ ── CallosumClient ── the gate

A host is one description in ``callosum.programs``; everything here is derived from it. What only one host says or does
lies in a folder with its name, and the description names it.

An adapter of a command hook (``hooks``) is pure: ``read`` turns what the host says into the words of ``told``,
``render`` turns the answer into what the host prints to its model. ``dispatch`` does what lies between, the same for
all. No host knows another.
"""
