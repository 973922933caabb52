"""Chaos: real processes and real servers under faults, and a checker over what everybody saw.

``campaigns`` says what is broken and when, ``worker`` what a session does meanwhile, ``history`` what it writes down,
``checker`` what must hold of it all.
"""
