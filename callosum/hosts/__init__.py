"""The hosts in which agents live, each gated at the seam that holds there.

::

    Claude Code, Codex, Gemini CLI   the hook ──────── POST /hooks/HOST ── Dispatcher ── the gate
                                        │ no answer: offline.py, by the tier table
    OpenClaw                         openclaw/ (JavaScript) ── POST /intercept, /complete
    any MCP client                   mcp/ ── CallosumClient ── the gate

An adapter of a command hook is pure: ``read`` turns what the host says into the words of ``told``, ``render`` turns
the answer into what the host prints to its model. ``dispatch`` does what lies between, the same for all. No host
knows another.
"""
