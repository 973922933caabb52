"""The stage of ``callosum demo``: a small world, sessions as real processes, and the play.

``world`` is what can be harmed: a mail server, a calendar, a file. ``actor`` is one session of the
agent in a process of its own. ``play`` tells the actors when to do what, and counts afterwards.
"""
