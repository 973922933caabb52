"""What people who write stores and gates test them with.

``ManualClock`` is a clock that is set by hand. ``store_contract.StoreContract`` and
``gate_contract.GateContract`` are test classes that hold every promise of ``Store`` and ``Gate``;
they need pytest, which the package does not depend on, so they are imported from their modules.
"""

from callosum.testing.clock import ManualClock

__all__ = ["ManualClock"]
