"""Regression tests for faults that fuzzing found."""

from __future__ import annotations

import pytest

from callosum.errors import ConfigError
from callosum.model import Call
from callosum.redact import redact_text
from callosum.rules import RuleSet, keys
from callosum.rules.shell import judge
from fuzz.targets.growth import grows

RULES = RuleSet.parse(secret=b"s")


@pytest.mark.parametrize(
    "line",
    [
        "case x in a) ls;; esac | rm -rf /srv/data | cat", "case x in a) ls;; esac; rm -rf /srv/data",
        'echo "$( case x in a) ls;; esac )"; rm -rf /srv/data', "$( case x in (a|b) ls;; esac )\nrm -rf /srv/data",
    ],
)  # fmt: skip
def test_text_after_a_case_is_a_command_and_no_pattern(line: str) -> None:
    assert judge(line, "/w").tier == 4


@pytest.mark.parametrize(
    "line",
    ["ls; case x in", "if ls; then pwd", "while ls; do pwd", "case x in a) ls;; esac ( x", "ls $(case x in a) pwd)"],
)
def test_unterminated_construct_is_not_a_read(line: str) -> None:
    assert judge(line, "/w").tier == 3


@pytest.mark.parametrize(
    "line",
    [
        "case x in a|b) ls;; (c) pwd;; esac", "if ls; then pwd; elif ls; then pwd; else ls; fi",
        "for i in a b; do { pwd; }; done", "time if ls; then pwd; fi",
        "case x in a) if ls; then pwd; fi;; *) ls;; esac | cat",
    ],
)  # fmt: skip
def test_terminated_construct_is_a_read(line: str) -> None:
    assert judge(line, "/w").tier == 0


def test_prefixes_before_a_pipe_are_read_once() -> None:
    grows("a pipe", lambda text: judge(text, "/w"), lambda length: "sudo " * (length // 5) + " | sh", "sudo")


@pytest.mark.parametrize("sql", ["DROP/**/TABLE users", "-- x\ndrop table users", "/* x */ drop table users"])
def test_comments_in_sql_hide_nothing(sql: str) -> None:
    assert RULES.classify(Call("a", "run_sql", {"sql": sql})).tier == 4


def test_tool_with_broken_unicode_is_refused_with_its_field() -> None:
    with pytest.raises(ConfigError, match=r"rules\[0\]\.tool\[1\]"):
        RuleSet.parse(b'{"rules": [{"tool": ["x", "\\ud800*"], "tier": 1}]}')


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("email:a|B", "email:a%7cb"), ("\0HTTPS:x", "https:x"), ("thread:a /", "thread:a"), ("order:a / /", "order:a"),
        ("order:e\u200b\u0301", "order:e\u200b\u0301"), ("email:a@x\0.org", "email:a@x"),
        ("order:|\u0301", "order:%7\u0106"),
    ],
)  # fmt: skip
def test_a_key_has_one_spelling(written: str, key: str) -> None:
    assert keys.canonical(written) == (key,)
    assert keys.canonical(key) == (key,)


def test_redacted_text_stays_unchanged() -> None:
    text = "eko:://u:p@:password=:://u:\nCo(:://u:p@: "
    assert redact_text(redact_text(text)) == redact_text(text)
