"""The corpus: what happens at the gate and around it, as typed events.

``events`` is the catalogue, one class an event; ``derive`` tells which events an entry of the journal
stands for.
"""
