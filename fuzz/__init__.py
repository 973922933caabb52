"""Fuzzing: whatever a model, a tool or a client sends, the gate answers soon, and when in doubt too strictly.

``targets`` say what is tried and what must hold, ``one`` tries one target, ``campaign`` tries them all.
"""
