"""Fuzzing: whatever a model, a tool or a client sends, the gate answers, soon, and errs to the graver side.

``targets`` say what is tried and what must hold, ``one`` tries a target, ``campaign`` tries them all.
"""
