"""Run ``callosum demo``: a small world, sessions as real processes, and a script of what they do.

``world`` holds what can be harmed: a mail server, a calendar, a file. ``session`` is one session of the agent in its
own process. ``runner`` tells the sessions when to do what, and counts the results.
"""
