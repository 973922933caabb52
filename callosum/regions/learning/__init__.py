"""Basal Ganglia: learns from the outcomes of warned, stopped and asked calls, and proposes narrower rules.

``endings`` follows the journal's entries and reports how each such call ended. ``BasalGanglia`` does that live and
emits it on the corpus. ``callosum.retrospect`` evaluates the whole journal. Nothing here changes a rule: a proposal is
for a person to read and to paste.
"""

from callosum.regions.learning.learned_file import FILE as LEARNED
from callosum.regions.learning.region import BasalGanglia

__all__ = ["LEARNED", "BasalGanglia"]
