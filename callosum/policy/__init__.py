"""What the gate decides, in plain Python: no clock, no I/O, no store.

``table`` maps tier and conflict kind to a verdict, and holds three functions that adjust the result. ``evidence`` finds
conflicts in a view. ``admit`` decides a call. ``lifecycle`` ends, renews and resolves actions. ``sentence`` words the
answer for the agent.
"""
