"""Helpers for testing a store or a gate of your own.

``ManualClock`` is a clock that is set by hand. ``store_contract.StoreContract`` and ``gate_contract.GateContract`` are
test classes that check every promise of ``Store`` and ``Gate``. They need pytest, which the package does not depend on,
so import them from their modules.
"""

from callosum.testing.clock import ManualClock

__all__ = ["ManualClock"]
