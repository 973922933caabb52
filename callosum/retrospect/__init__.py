"""What the journal shows about the rules: their blind spots, narrower rules it supports, and the effect of other rules.

``gaps`` finds calls without keys, tools that no rule names and keys that no two sessions ever share. ``trial`` replays
the recorded calls under the current rules and under others, and reports the differences. ``suggestions`` proposes rules
from how stopped calls ended, ``like`` a standing approval from one call. All of them read and group recorded calls with
``recorded_calls``.
"""

from callosum.retrospect.classification_changes import ClassificationChange
from callosum.retrospect.gaps import BlindTool, Gaps, UnsharedFamily, find_gaps
from callosum.retrospect.like import Like, like
from callosum.retrospect.suggestions import Suggestion, SuggestionEvidence, suggest, suggest_from
from callosum.retrospect.trial import MOST, Difference, Trial, try_rules

__all__ = [
    "MOST",
    "BlindTool",
    "ClassificationChange",
    "Difference",
    "Gaps",
    "Like",
    "Suggestion",
    "SuggestionEvidence",
    "Trial",
    "UnsharedFamily",
    "find_gaps",
    "like",
    "suggest",
    "suggest_from",
    "try_rules",
]
