"""Chaos: real processes and real servers under faults, and a checker over what all of them saw.

``campaigns`` says what is broken and when, ``worker`` what a session does meanwhile, ``history`` what it records,
``checker`` what must hold of it all.
"""
