"""What the journal teaches about the rules: where they see nothing, which narrower ones it speaks for, what others do.

``gaps`` counts calls without keys, tools that no rule names and keys that no two sessions ever share. ``trial`` plays
the recorded calls once more, under the rules in force and under others, and tells where they part. ``suggestions``
proposes rules from how pauses ended. All of them read recorded calls, and count them in groups, by ``recorded``.
"""

from callosum.retrospect.classification_changes import ClassificationChange
from callosum.retrospect.gaps import BlindTool, Gaps, UnsharedFamily, find_gaps
from callosum.retrospect.suggestions import Evidence, Examined, Suggestion, examine, suggest
from callosum.retrospect.trial import MOST, Difference, Trial, try_rules

__all__ = [
    "MOST",
    "BlindTool",
    "ClassificationChange",
    "Difference",
    "Evidence",
    "Examined",
    "Gaps",
    "Suggestion",
    "Trial",
    "UnsharedFamily",
    "examine",
    "find_gaps",
    "suggest",
    "try_rules",
]
