"""A model checker of the policy: every state that a small, bounded world can reach.

``world`` makes the transitions with the real gate over the store in memory, ``states`` decides which states are alike,
``promises`` says what must hold, and ``explore`` visits all of it, breadth first.
"""
