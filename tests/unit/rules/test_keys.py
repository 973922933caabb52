"""One resource, one spelling."""

from typing import Any

import pytest

from callosum.model import MAX_KEY, Call, Key, Mode
from callosum.rules import RuleSet, keys
from callosum.rules.command import patched
from callosum.rules.template import TemplateError, compile_template

PATHS = [
    ("/a/b.txt", None, "/a/b.txt"), ("b.txt", "/a", "/a/b.txt"), ("b.txt", "/a/", "/a/b.txt"),
    ("./b.txt", "/a", "/a/b.txt"), ("../b.txt", "/a/c", "/a/b.txt"), ("/a//b/./c/../d", None, "/a/b/d"),
    ("/../../x", None, "/x"), ("README.md", None, "README.md"), ("../README.md", None, "../README.md"),
    ("a/../../b", None, "../b"), ("~/x", "/a", "~/x"), ("/a/b/", None, "/a/b/"), ("/", None, "/"), (".", "/a", "/a/"),
    ("..", "/a/b", "/a/"), ("file:///a/b", None, "/a/b"), ("file://localhost/a/b", None, "/a/b"),
    ("C:\\Users\\me\\..\\x.txt", None, "c:/Users/x.txt"), ("c:/x.txt", "/a", "c:/x.txt"), ("x\\y", "C:\\w", "c:/w/x/y"),
    ("/a/.hidden", None, "/a/.hidden"), ("a\\ b", "/w", "/w/a\\ b"), ("./~/x", None, "./~/x"),
    ("./~/x", "/a", "/a/~/x"), ("a/../~", None, "./~"), ("./C:\\x", None, "./C:\\x"), (".//c:/", None, "./c:/"),
    ("./ x", None, "./ x"), ("./\\\\host\\x", None, "./\\\\host\\x"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "cwd", "wanted"), PATHS)
def test_paths_become_keys(given: str, cwd: str | None, wanted: str) -> None:
    assert keys.path(given, cwd) == wanted
    assert keys.path(wanted, cwd) == wanted


NAMES = [
    ("email:Alice <Alice@Example.com>", ["email:alice@example.com"]),
    ("email: bob@x.org, CAROL@x.org", ["email:bob@x.org", "email:carol@x.org"]),
    ("email:thread:ABC", ["email:thread:ABC"]),
    ("email:Someone", ["email:someone"]),
    ("channel:  #General ", ["channel:#General"]),
    ("channel:a\nb\tc", ["channel:a b c"]),
    ("channel:a\u200bb", ["channel:a\u200bb"]),
    ("channel:a|b", ["channel:a%7Cb"]),
    ("File:a/./b", ["file:/w/a/b"]),
    ("url:https://x.org/", ["url:https://x.org"]),
    ("channel:cafe\u0301", ["channel:caf\u00e9"]),
    ("plain", ["plain"]),
    ("file:", []),
    (" ", []),
]


@pytest.mark.parametrize(("given", "wanted"), NAMES)
def test_complete_keys_are_kept(given: str, wanted: list[str]) -> None:
    assert list(keys.canonical(given, "/w")) == wanted


NAMED = [
    ("Email: Alice@Example.com ", ["email:alice@example.com"]),
    ("email:bob@x.org, carol@x.org", ["email:bob@x.org", "email:carol@x.org"]),
    ("CRM:5", ["crm:5"]),
    ("File:a/./b", ["file:/w/a/b"]),
    ("file:/w/src/", ["file:/w/src/"]),
    ("file:/w/src/|names", ["file:/w/src/|names"]),
    ("url:https://X.org/", ["url:https://x.org"]),
    ("url:/|some", ["url:/|some"]),
    ("Order:/", ["order:/"]),
    ("file:/w/File:/", ["file:/w/File:/"]),
    ("order:plan:/", ["order:plan:/"]),
    ("order:/|new", ["order:/|new"]),
    ("slot:primary/2026-05-19/", ["slot:primary/2026-05-19/"]),
    ("issue:acme/site/7|label/bug", ["issue:acme/site/7|label/bug"]),
    ("channel:#general | message", ["channel:#general|message"]),
    ("thread:andy:msg-500", ["thread:andy:msg-500"]),
    ("k:1", ["k:1"]),
    ("=0f", ["=0f"]),
    ("file:", []),
    ("|new", []),
]


@pytest.mark.parametrize(("given", "wanted"), NAMED)
def test_keys_are_built_from_named_parts(given: str, wanted: list[str]) -> None:
    assert list(keys.named(given, "/w")) == wanted
    assert [name for one in wanted for name in keys.named(one)] == wanted


def test_addressee_has_one_key_for_every_tier() -> None:
    rules = RuleSet.parse(b'{"rules": [{"tool": "ruled", "tier": 3, "contextKey": "email:{params.to}"}]}')
    for address in ("a|B@x.org", "!\0al@x.org", "Al@x.org"):
        ruled, judged = (rules.classify(Call("mira", tool, {"to": address})).keys for tool in ("ruled", "send_email"))
        assert [key.name for key in ruled] == [key.name for key in judged]


def test_long_keys_are_cut_and_stay_different() -> None:
    one, other = keys.spell("channel:", "x" * 5000 + "1"), keys.spell("channel:", "x" * 5000 + "2")
    assert len(one[0]) == len(other[0]) == MAX_KEY
    assert one != other
    assert one == keys.spell("channel:", "x" * 5000 + "1")


def test_too_long_tree_becomes_a_wider_tree() -> None:
    (name,) = keys.spell("file:", "/" + "a/" * 2000)
    assert name.endswith("/a/")
    assert len(name) <= MAX_KEY


def test_surplus_keys_are_dropped_regardless_of_order() -> None:
    rules = RuleSet.parse()
    many = [f"a{i}@x.org" for i in range(200)]
    first = rules.classify(Call("a", "send_email", {"to": many[50:] + many[:50]}))
    second = rules.classify(Call("a", "send_email", {"to": many}))
    assert len(first.keys) == len(second.keys) == keys.MAX_KEYS
    assert len({key.name for key in first.keys} & {key.name for key in second.keys}) >= keys.MAX_KEYS - 2


def test_one_name_keeps_its_strongest_mode() -> None:
    merged, cut = keys.merge([Key("a", Mode.READ), Key("b", Mode.APPEND), Key("a", Mode.WRITE)])
    assert (merged, cut) == ((Key("a", Mode.WRITE), Key("b", Mode.APPEND)), False)


TEMPLATES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("{tool}:{params.a}", {"a": "B"}, ["exec:B"]),
    ("x:{params.a|params.b|new}", {"b": 5}, ["x:5"]),
    ("x:{params.a|params.b|new}", {}, ["x:new"]),
    ("x:{params.a|unknown}", {}, []),
    ("x:{params.a}", {"a": "unknown"}, []),
    ("x:{params.a}", {"a": 1.0}, ["x:1"]),
    ("x:{params.a}", {"a": False}, ["x:false"]),
    ("x:{params.a}", {"a": {"b": 1}}, []),
    ("x:{params.a.b.c}", {"a": {"b": {"c": "d"}}}, ["x:d"]),
    ("x:{params.a.b}", {"a": "d"}, []),
    ("x:{params.a}", {"a": ["p", "q", None, "p"]}, ["x:p", "x:q", "x:p"]),
    ("x:{params.a}:{params.b}", {"a": ["p", "q"], "b": "r"}, ["x:p:r", "x:q:r"]),
    ("x:{params.a}|facet", {"a": "p|q"}, ["x:p%7Cq|facet"]),
    ("x:{params.a}/", {"a": "p"}, ["x:p/"]),
    ("x:{params.a}", {"a": "p/"}, ["x:p"]),
    ("file:{params.a}", {"a": "sub/"}, ["file:/w/sub/"]),
    ("git:{cwd}", {}, ["git:/w"]),
    ("fixed:key", {}, ["fixed:key"]),
    ("email:{params.to|commandRecipient}", {"to": "Al <A@x.org>; b@x.org"}, ["email:a@x.org", "email:b@x.org"]),
    ("a:{params.k\u00e9y}", {"k\u00e9y": "v"}, ["a:v"]),
]


@pytest.mark.parametrize(("template", "params", "wanted"), TEMPLATES)
def test_templates_build_keys(template: str, params: dict[str, Any], wanted: list[str]) -> None:
    call = Call("a", "exec", params, cwd="/w")
    assert list(compile_template(template)(call, params)) == wanted


@pytest.mark.parametrize("template", ["", " ", "{", "a:{b", "a}", "{b}", "{params.}", "{params.a||x}", "{{params.a}}"])
def test_malformed_templates_are_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)


@pytest.mark.parametrize("rows", [0, 1, 65_534, 65_535, 65_536, 200_000])
def test_every_file_of_a_long_patch_is_found(rows: int) -> None:
    hunk = "+one\n" * rows
    files = ["first.py", "moved.py", "c d.py", "last.py"]
    marked = (
        f"*** Update File: {files[0]}\n*** Move to: {files[1]}\n{hunk}*** Add File: {files[2]}\n{hunk}"
        f"*** Delete File: {files[3]}"
    )
    assert patched({"input": marked}) == files
    unified = f"--- a/{files[0]}\n+++ b/{files[1]}\t2026\n{hunk}--- {files[2]}\n+++ /dev/null\n{hunk}+++ b/{files[3]}"
    assert patched({"patch": unified}) == files
