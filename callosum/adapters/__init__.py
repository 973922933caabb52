"""Adapters for the frameworks that agents are written in, each in a module of its own that alone imports its framework.

==================== ===================================== =====================================================
``install`` gates every one of them that the program has imported. ``callosum.adapters.core`` is what they share, and
what an adapter for another framework needs.
"""

from callosum.adapters.installing import Installed, install

__all__ = ["Installed", "install"]
