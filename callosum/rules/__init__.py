"""Rules: what a call risks, what it touches, what it says.

``RuleSet.parse`` reads a rules file, ``RuleSet.classify`` turns a call into its classification. Pure:
no clock, no socket, no file but the rules that ship with the package.
"""

from callosum.rules.content import contrary, near
from callosum.rules.fields import json_schema
from callosum.rules.parse import KeyTemplate, Rule
from callosum.rules.ruleset import RuleSet
from callosum.rules.standing import StandingApproval

__all__ = ["KeyTemplate", "Rule", "RuleSet", "StandingApproval", "contrary", "json_schema", "near"]
