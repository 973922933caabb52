"""Addresses, links and repositories have one spelling each."""

from itertools import product

import pytest

from callosum.model import Key, Mode
from callosum.rules import keys

URLS = [
    ("https://X.org/", "https://x.org"),
    ("HTTPS://x.ORG:443/A/b/", "https://x.org/A/b"),
    ("http://x.org:80/a", "http://x.org/a"),
    ("http://x.org:8080/a", "http://x.org:8080/a"),
    ("https://me:secret@x.org/a", "https://x.org/a"),
    ("https://x.org/a#part", "https://x.org/a"),
    ("https://x.org/#/inbox/", "https://x.org/#/inbox"),
    ("https://x.org/a?b=C/", "https://x.org/a?b=C"),
    ("https://a@b@x.org/a", "https://x.org/a"),
    ("a://@@", "a:"),
    ("x.org/a/", "x.org/a"),
    ("https://", "https:"),
    ("http://#/", "http:"),
    ("https://x.org/#/", "https://x.org"),
]


@pytest.mark.parametrize(("given", "wanted"), URLS)
def test_urls_have_one_spelling(given: str, wanted: str) -> None:
    assert keys.url(given) == wanted
    assert keys.url(wanted) == wanted
    assert not keys.url(given).endswith("/")


REPOSITORIES = [
    ("acme/site", "acme/site"), ("site", "site"), ("https://github.com/acme/site.git", "acme/site"),
    ("https://github.com/acme/site/tree/main", "acme/site"), ("git@github.com:acme/site.git", "acme/site"),
    ("ssh://git@github.com/acme/site/", "acme/site"), ("", ""), ("/", ""),
]  # fmt: skip


@pytest.mark.parametrize(("given", "wanted"), REPOSITORIES)
def test_repositories_have_one_spelling(given: str, wanted: str) -> None:
    assert keys.repository(given) == wanted


ADDRESSES = [
    ("Alice Doe <Alice@X.org>", ["alice@x.org"]),
    ("mailto:Alice@X.org?subject=hi", ["alice@x.org"]),
    ("mailto:a@x.org?cc=B@x.org&body=to c@x.org", ["a@x.org", "b@x.org"]),
    ("ALICE+News@X.org", ["alice+news@x.org"]),
    ('"Doe, Alice" <a@x.org>, b@x.org; C@x.org', ["a@x.org", "b@x.org", "c@x.org"]),
    ("a@b\u00fccher.example", ["a@xn--bcher-kva.example"]),
    ("a@xn--bcher-kva.example", ["a@xn--bcher-kva.example"]),
    ("ali\u200bce@x.org", ["ali\u200bce@x.org"]),
    ("\u0430lice@x.org", ["\u0430lice@x.org"]),  # a Cyrillic letter: another person
    ("a@" + "x" * 300 + ".\u00fc", ["a@" + "x" * 254]),
    ("alice@x.org./", ["alice@x.org"]),
    ("alice@x.org\u3002", ["alice@x.org"]),
    ("a@b\uff20x.org", ["a@b\uff20x.org"]),
    ("a@b\uff5cx.org", ["a@b\uff5cx.org"]),
    ("nobody", []),
]


@pytest.mark.parametrize(("given", "wanted"), ADDRESSES)
def test_addresses_have_one_spelling(given: str, wanted: list[str]) -> None:
    found = keys.addresses(given)
    if len(given) > 256:
        assert len(found) == len(wanted)
    else:
        assert found == wanted


def test_address_with_trailing_slashes_has_one_spelling() -> None:
    (found,) = keys.canonical("email:bob@x.org//")
    assert found == "email:bob@x.org"
    (odd,) = keys.canonical("email:.@//")
    assert keys.canonical(odd) == (odd,)


PIECES = (
    ".", "..", "/", "\\", "C:", "~", " ", "x", "a@b.c", ":", "|", "#", "?", "file:", "http://", "\x07", "\u200b", "\u0301",
)  # fmt: skip
SPELLED = [("file:", PIECES[:8], 4), *((one, PIECES, 3) for one in ("file:", "email:", "url:", "order:", ""))]


@pytest.mark.parametrize(("entity", "pieces", "most"), SPELLED)
def test_any_combination_of_parts_has_one_spelling(entity: str, pieces: tuple[str, ...], most: int) -> None:
    texts = ["".join(one) for count in range(1, most + 1) for one in product(pieces, repeat=count)]
    wrong = [
        (text, cwd, one)
        for text in texts
        for cwd in (None, "/w", "C:\\w", "rel")
        for one in keys.canonical(entity + text, cwd)
        if not keys.canonical(one) == keys.named(one) == (one,)
    ]
    assert wrong == []


def test_address_tags_are_removed_if_the_setting_says_so() -> None:
    w = Mode.WRITE
    given = (Key("email:a+news@x.org", w), Key("email:a@x.org", w), Key("email:thread:a+b@x", w), Key("issue:a+b", w))
    assert keys.untagged(given) == (Key("email:a@x.org", w), Key("email:thread:a+b@x", w), Key("issue:a+b", w))
    assert keys.untagged(given[2:]) is given[2:] or keys.untagged(given[2:]) == given[2:]


def test_look_alike_characters_stay_different() -> None:
    assert keys.spell("email:", "\u0430lice@x.org") != keys.spell("email:", "alice@x.org")


OLD_SPELLINGS = [
    ("file:/r/a\u202eb", ["file:/r/a\u202eb", "file:/r/ab"]),
    ("file:/r\u200b/d/", ["file:/r\u200b/d/", "file:/r/d/"]),
    ("file:/r/a\u200b\u0301|x", ["file:/r/a\u200b\u0301|x", "file:/r/\xe1|x"]),
    ("email:ali\u200bce@X.org", ["email:ali\u200bce@x.org", "email:alice@x.org"]),
    ("channel:\U000e0041b", ["channel:\U000e0041b", "channel:b"]),
    ("channel:a\x1b\x07b", ["channel:a  b"]),
    ("channel:a\u2028b\x9b\ue000c", ["channel:a b  c"]),
    ("channel:a\ufe0f\u3164\u2800b", ["channel:a\ufe0f\u3164\u2800b"]),
    ("channel:a\ud800b", ["channel:a\ufffdb"]),
    ("channel:ab", ["channel:ab"]),
]
"""Keys, and their spellings: the last is the one that version f2e0d31 writes."""


@pytest.mark.parametrize(("given", "wanted"), OLD_SPELLINGS)
def test_hidden_characters_stay_and_the_old_spelling_is_a_second_key(given: str, wanted: list[str]) -> None:
    spelled = keys.with_old_spelling(tuple([Key(one, Mode.WRITE) for one in keys.named(given)]))
    assert [key.name for key in spelled] == wanted
    assert keys.with_old_spelling(spelled) == spelled
