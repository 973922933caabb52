"""What the gate decides, in plain Python: no clock, no I/O, no store.

``table`` holds tier by kind -> verdict and the three functions laid over it; ``evidence`` finds
conflicts in a view; ``admit`` decides a call; ``settle`` ends, renews and resolves actions;
``sentence`` words the answer for the agent.
"""
