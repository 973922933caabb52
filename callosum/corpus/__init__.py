"""The corpus: what happens at the gate and around it, as typed events.

``events`` is the catalogue, with one class for each event; ``entry_events`` derives events from journal entries.
"""
