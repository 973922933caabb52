"""What the journal teaches about the rules: where they see nothing, and what other rules would have decided.

``gaps`` counts calls without keys, tools that no rule names and keys that no two sessions ever share. ``trial`` plays
the recorded calls once more, under the rules in force and under others, and tells where they part.
"""

from callosum.retrospect.gaps import Family, Gaps, Tool, find_gaps
from callosum.retrospect.survey import Shift
from callosum.retrospect.trial import MOST, Difference, Trial, try_rules

__all__ = ["MOST", "Difference", "Family", "Gaps", "Shift", "Tool", "Trial", "find_gaps", "try_rules"]
