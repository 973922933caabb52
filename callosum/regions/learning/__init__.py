"""Basal Ganglia: learns from how warned, paused and asked calls end, and proposes narrower rules.

``endings`` follows the journal's entries and tells how each such call ended. ``BasalGanglia`` does that live and
tells of it on the corpus. What the whole journal speaks for is in ``callosum.retrospect``. Nothing here changes a
rule: what is proposed is for a person to read and to paste.
"""

from callosum.regions.learning.learned_file import FILE as LEARNED
from callosum.regions.learning.region import BasalGanglia

__all__ = ["LEARNED", "BasalGanglia"]
