"""Secrets do not reach the journal, and no input makes the summary fail."""

from __future__ import annotations

import datetime as dt
import enum
import math
import random
import re
import time
from collections import UserDict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import redaction
from callosum.redact import MARKER, quote, redact_text, said, summarise
from callosum.redact.json_lines import is_harmless
from callosum.redact.redactor import REDACTOR, Redactor, SecretShape, marker
from tests.support.cpu import cpu_within

ROOT = Path(__file__).parents[2]
ALNUM = "aB3dE6gH1jK4mN7pQ0sT2vW5yZ8"  # 27 characters that look random


def hidden(name: str, value: Any = "hunter2") -> bool:
    return bool(summarise({name: value}) == {name: MARKER})


@pytest.mark.parametrize(
    "name",
    """password Password PASSWORD userPassword db_password DB_PASSWORD PGPASSWORD db.password passwd
    pwd MYSQL_PWD passphrase secret clientSecret client_secret clientsecret secretKey SECRET_KEY_BASE
    AWS_SECRET_ACCESS_KEY api_key apiKey APIKey api-key X-Api-Key x_apikey openaiApiKey OPENAI_API_KEY
    access_key private_key privateKey ssh-key signing_key credential credentials authorization
    Authorization Proxy-Authorization cookie Cookie Set-Cookie cookies jwt cvv cvc card_number
    cardNumber token Token accessToken access_token GITHUB_TOKEN authtoken refresh-token auth pass otp
    bearerToken idToken""".split(),
)
def test_name_reveals_a_secret(name: str) -> None:
    assert hidden(name)


@pytest.mark.parametrize(
    "name",
    """max_tokens maxTokens token_count tokenCount total_tokens prompt_tokens next_page_token pageToken
    nextPageToken sync_token token_type tokenizer keyboard monkey key keys publicKey primary_key
    sort_key contextKey sessionKey secretary author authors password_policy passwordLength
    secret_name cookie_consent token_url authorization_endpoint compass passenger bypass passage
    credential_type PWD OLDPWD to subject body path content 1 π""".split(),
)
def test_a_harmless_name_hides_nothing(name: str) -> None:
    assert summarise({name: "hello"}) == {name: "hello"}


def test_number_or_flag_is_not_a_token_but_may_be_a_password() -> None:
    params = {"tokens": 12, "pass": True, "auth": None, "token": "", "password": 1234, "secret": False}
    assert summarise(params) == params | {"password": MARKER}


def test_a_secret_name_covers_what_is_below_it() -> None:
    params = {
        "headers": {"Authorization": ["Basic x"], "Accept": "*/*"},
        "tokens": {"github": "abc", "used": 3},
        "credentials": {"user": "mira"},
        "env": [{"name": "API_KEY", "value": "abc"}, {"name": "HOME", "value": "/root"}],
    }
    assert summarise(params) == {
        "headers": {"Authorization": MARKER, "Accept": "*/*"},
        "tokens": {"github": MARKER, "used": 3},
        "credentials": MARKER,
        "env": [{"name": "API_KEY", "value": MARKER}, {"name": "HOME", "value": "/root"}],
    }


SHAPES = [
    f"sk-{ALNUM}",
    f"sk-ant-api03-{ALNUM}-{ALNUM}",
    f"sk-proj-{ALNUM}",
    f"ghp_{ALNUM}",
    f"github_pat_{ALNUM}_{ALNUM}",
    f"glpat-{ALNUM}",
    f"xoxb-1234567890-{ALNUM}",
    "AKIAIOSFODNN7EXAMPLE",
    f"AIza{ALNUM}12345678",
    f"sk_live_{ALNUM}",
    f"SG.{ALNUM}.{ALNUM}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{ALNUM}",
    f"123456789:AA{ALNUM}123456",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SHAPES, ids=lambda secret: secret[:12])
def test_shape_reveals_a_secret(secret: str) -> None:
    assert redact_text(secret) == MARKER
    assert redact_text(f"use <{secret}") == f"use <{MARKER}"
    assert summarise({"note": f"see {secret}"}) == {"note": f"see {MARKER}"}
    assert summarise({"a": [{"b": secret}]}) == {"a": [{"b": MARKER}]}
    assert list(summarise({secret: 1})) == [MARKER]


def test_argument_of_a_secret_option_in_a_list_is_redacted() -> None:
    params = {"args": ["run", "--password", "hunter2", "--verbose", "x"]}
    assert summarise(params) == {"args": ["run", "--password", MARKER, "--verbose", "x"]}


def test_full_width_name_reveals_a_secret() -> None:
    assert hidden("\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44")


def test_disguised_name_in_a_text_reveals_its_value() -> None:
    assert redact_text("pass\u200bword: X1") == "password: [redacted]"
    assert redact_text("\uff50\uff41\uff53\uff53\uff1aX1 密码：X1y2") == "pass:[redacted] 密码:[redacted]"


def test_recall_and_false_redaction_reach_their_targets() -> None:
    """The bench plants every kind in every context, with more seeds, and a third of the providers outside the table."""
    chance = random.Random(11)
    for tally in (redaction.of_providers(redact_text, chance, contexts=4), redaction.of_places(redact_text, chance, 2)):
        assert tally.share >= redaction.RECALL, tally.others
    shown = [text for text in redaction.HARMLESS if redact_text(text) != text]
    assert len(shown) <= redaction.FALSE * len(redaction.HARMLESS), shown
    hard = redaction.of_hard(1)
    assert hard.all - hard.hits <= redaction.FALSE_HARD, hard.others


def test_summary_cuts_text_with_its_length() -> None:
    assert summarise({"a": "x" * 200}) == {"a": "x" * 200}
    assert summarise({"a": "x" * 1000}) == {"a": "x" * 200 + "… (1000 characters)"}
    assert summarise({"a": ["x" * 10_000]}) == {"a": ["x" * 200 + "… (10000 characters)"]}


@pytest.mark.parametrize("before", [*range(150, 260, 5), 400])
def test_a_secret_at_the_cut_shows_no_part(before: int) -> None:
    secret = f"ghp_{ALNUM}{ALNUM}"
    for params in ({"a": "x" * (before - 1) + " " + secret + "x" * 2000}, {"a": [" " * before + secret]}):
        assert "ghp_a" not in repr(summarise(params))


@pytest.mark.parametrize("space", range(0, 1300, 7))
def test_text_that_moves_up_after_a_long_secret_is_redacted(space: int) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----" + "A" * space + "-----END RSA PRIVATE KEY-----"
    assert "ghp_aB" not in summarise({"a": f"{key} ghp_{ALNUM} " + "y" * 3000})["a"]


def test_summary_cuts_structures_with_counts() -> None:
    assert summarise({"a": list(range(33))}) == {"a": [*range(30), "… (3 more)"]}
    wide = summarise({f"k{n}": n for n in range(40)})
    assert len(wide) == 31
    assert wide["…"] == "(10 more)"
    deep: Any = "end"
    for _ in range(10):
        deep = [deep]
    assert "[…] (1 item)" in repr(summarise({"a": deep}))
    assert "end" in repr(summarise({"a": deep}, mode="full"))


def test_a_summary_has_a_size_however_large_the_params() -> None:
    many = {f"k{n}": {f"j{m}": ["x" * 500] * 30 for m in range(30)} for n in range(30)}
    assert len(msgspec.json.encode(summarise(many))) < 30_000


def test_full_mode_keeps_all_text_except_secrets() -> None:
    params = {"a": "x" * 10_000, "b": list(range(1000)), "c": f"ghp_{ALNUM}", "password": "p"}
    assert summarise(params, mode="full") == params | {"c": MARKER, "password": MARKER}


def test_none_mode_keeps_no_value() -> None:
    assert summarise({"a": 1}, mode="none") is None


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Hostile(Mapping[str, Any]):
    """A mapping whose every method raises."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


def test_value_unknown_to_json_gets_a_name() -> None:
    params = {
        "bytes": b"abc",
        "date": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "object": object(),
        "nan": math.nan,
        "inf": -math.inf,
        "set": {1},
        "tuple": (1, 2),
        "colour": Colour.RED,
        "level": Level.HIGH,
        "huge": 1 << 100_000,
        "mapping": UserDict(a=1),
        "hostile": Hostile(),
        "lone": "a\ud800b",
        "generator": (n for n in range(3)),
        "type": int,
    }
    assert summarise(params) == {
        "bytes": "<3 bytes>", "date": "<datetime>", "object": "<object>", "nan": "nan", "inf": "-inf", "set": [1],
        "tuple": [1, 2], "colour": "red", "level": 3, "huge": "<integer of 100001 bits>", "mapping": {"a": 1},
        "hostile": "<Hostile>", "lone": "a\ufffdb", "generator": "<generator>", "type": "<type>",
    }  # fmt: skip


def test_names_that_json_cannot_represent_are_converted() -> None:
    odd: dict[Any, Any] = {1: "a", None: "b", 2.5: "c", (1, 2): "d", "\ud800": "e", "n" * 300: "f"}
    kept = summarise(odd)
    assert list(kept)[:5] == ["1", "None", "2.5", "<tuple>", "\ufffd"]
    assert list(kept)[5].endswith("… (300 characters)")


@pytest.mark.parametrize("mode", ["summary", "full"])
def test_container_that_holds_itself_is_summarised(mode: Any) -> None:
    inner: list[Any] = [1]
    inner.append(inner)
    assert summarise({"a": inner, "b": inner}, mode=mode) == {"a": [1, "<cycle>"], "b": [1, "<cycle>"]}


def test_shared_parts_do_not_explode() -> None:
    shared: Any = "x"
    for _ in range(64):
        shared = [shared, shared]
    assert len(msgspec.json.encode(summarise({"a": shared}))) < 20_000


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary()
    | st.text(st.characters())
    | st.sampled_from(["password=", "token: ", "://a:b@", "sk-1", 'secret="', "-----BEGIN PRIVATE KEY-----"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@given(st.dictionaries(st.text(st.characters()), anything), st.sampled_from(["summary", "full"]))
@settings(deadline=None, max_examples=40)
def test_any_params_become_json(params: dict[str, Any], mode: Any) -> None:
    kept = summarise(params, mode=mode)
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept


pieces = st.lists(
    st.sampled_from(
        [*SHAPES[:8], "password", "=", ":", " ", '"', "'", "\\", "token", "a", "1", "\n", "@", "//", "[", "]"]
    )
    | st.text(max_size=3)
).map("".join)


@given(pieces)
@settings(deadline=None)
def test_redacted_text_hides_each_known_shape_and_stays_as_it_is(text: str) -> None:
    once = redact_text(text)
    assert not any(f" {secret} " in f" {once} " for secret in SHAPES[:8])
    assert redact_text(once) == once


def test_a_secret_in_a_long_text_is_found_as_in_a_short_one() -> None:
    """Long texts are searched in another way than short ones."""
    before = "the report of /srv/notes/draft.md (2026-11-23), a meeting at ten, and so on\n" * 40

    def redact_long(text: str) -> str:
        return redact_text(before + text).removeprefix(before)

    for measure in (partial(redaction.of_providers, contexts=2), partial(redaction.of_places, rounds=2)):
        short, long = measure(redact_text, random.Random(1)), measure(redact_long, random.Random(1))
        assert long == short
        assert short.hits > 100


@pytest.mark.parametrize("name", ["password", "FOO_KEY", "ticket_code", "note"])
def test_broken_unicode_under_any_name_is_taken(name: str) -> None:
    assert is_harmless({name: "\udcd0"}) in {True, False}
    assert msgspec.json.encode(summarise({name: "\udcd0"}))


def test_new_text_takes_bounded_time() -> None:
    """Text is nearly always new, so the search must not be fast only because of earlier searches."""
    files = sorted(ROOT.glob("callosum/**/*.py"))
    text = "".join(file.read_text("utf-8") for file in random.Random(5).sample(files, len(files)))
    fresh = Redactor()
    with cpu_within(0.5):  # in one search for all patterns at once it took 0.8
        for at in range(0, 300_000, 300):
            fresh.is_plain(text[at : at + 300])


def test_only_patterns_with_a_literal_or_clue_are_searched() -> None:
    assert REDACTOR.possible(b"") == []
    assert REDACTOR.possible(b"a mail to Ana about lunch on 2026-11-23 at 12:30") == []


CLUED = [rule for rule in REDACTOR.rules if rule.sign or rule.clue[:4] not in ("", r"\b(?")]
"""Not the rows of programs, whose clue is the beginning of their pattern."""


@pytest.mark.parametrize("rule", CLUED, ids=lambda rule: rule.id)
def test_text_in_which_a_pattern_finds_a_secret_has_its_clue_and_its_sign(rule: SecretShape) -> None:
    @given(st.from_regex(re.compile(rule.looser.replace("(?<", "(?P<").encode())))
    @settings(deadline=None, max_examples=10)
    def found(data: bytes) -> None:
        assert rule in REDACTOR.possible(data) or rule.replaced(data, marker) == data

    found()


@pytest.mark.parametrize("blanks", [0, 40])
def test_text_that_looks_random_takes_bounded_time(blanks: int) -> None:
    chance = random.Random(7)
    letters = ALNUM + ALNUM.swapcase() + "-_=:/."
    text = "".join("\n" if blanks and not number % blanks else chance.choice(letters) for number in range(30_000))
    summarise({str(number): text[at : at + 200] for number, at in enumerate(range(0, 30_000, 200))})
    text = text[::-1]
    with cpu_within(0.5):
        summarise({str(number): text[at : at + 200] for number, at in enumerate(range(0, 30_000, 200))})


@pytest.mark.parametrize(
    "piece",
    ["a", "eyJ", "password", "password=", 'password="', "token='\\", "://a:", "curl -u ", "mysql -p", "sk-1",
     "-----BEGIN RSA PRIVATE KEY-----", "authorization:", "bearer ", "--token ", "\\", "aA", "_", "é", "\ud800",
     'echo "a" | ', "echo a", "kinit <<AAA\na\n", "vault kv put a=", "digest a=b, ", "snmpget -c a ", "[redacted]:aB3"],
)  # fmt: skip
def test_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    """With backtracking some of these would run for hours."""
    text = piece * (1_000_000 // len(piece))
    assert isinstance(summarise({"a": text, "b": [text]})["a"], str)
    assert isinstance(redact_text(text[:200_000]), str)


@pytest.mark.parametrize(
    "piece", ["curl -u a:b ", "snmpget -c a ", "net user a x1y2 ", "create_ap a b x1y2 ", "croc x1y2z3 "]
)
def test_time_for_many_commands_on_a_line_grows_with_its_length(piece: str) -> None:
    """Searched together, the alternatives of one pattern would take time that grows with the square of the line."""

    def taken(count: int) -> float:
        text = piece * count
        began = time.process_time()
        redact_text(text)
        return time.process_time() - began

    taken(100)
    assert taken(16_000) <= 24 * min(taken(2_000) for _ in range(3))  # 64 times as long if it were the square


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("session-2", '"session-2"'), ("", '""'), ('a" or "b', "\"a' or 'b\""), ("a “b” c", "\"a 'b' c\""),
        ("a\nb\r\n\tc\x00\x1b[31m", '"a b c[31m"'), ("a\u202eb\u2066c\u200bd\ufeffe", '"abcde"'),
        ("a\U000e0041\U000e0042b\ufe0f\U000e0101", '"ab"'), ("a\ud800b\ue000", '"ab"'),
        ("a\u2028b\u2029c\x85d", '"a b c d"'), ("Größe 日本語 🙂", '"Größe 日本語 🙂"'), ("x" * 81, '"' + "x" * 79 + '…"'),
        ("x" * 80, '"' + "x" * 80 + '"'), ("\u200b" * 10_000 + "hidden", '"…"'),
    ],
)  # fmt: skip
def test_text_is_quoted(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize("blank", "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
def test_invisible_letter_is_escaped_in_quotes(blank: str) -> None:
    """Unicode calls some of them letters, so they could carry invisible words."""
    assert quote(f"a{blank}b") == '"ab"'


@pytest.mark.parametrize("before", ["\\n", "\\r", "\\t", "\n", " ", '"'])
def test_secret_after_an_escaped_line_break_is_found(before: str) -> None:
    """JSON within a string writes its line breaks as a backslash and a letter."""
    for secret in (f"ghp_{ALNUM}", f"sk-{ALNUM}"):
        assert redact_text(f"first{before}{secret} last") == f"first{before}[redacted] last"


@given(st.text(st.characters()), st.integers(1, 100))
def test_a_quoted_text_is_one_line_that_cannot_end_itself(text: str, limit: int) -> None:
    quoted = quote(text, limit)
    inside = quoted[1:-1]
    assert quoted[0] == quoted[-1] == '"'
    assert '"' not in inside
    assert len(inside) <= limit
    assert inside.replace("…", "").isprintable()
    quoted.encode()


# --- what an error says ---------------------------------------------------------------------------------------


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("disk full", "disk full"),
        (OSError("disk\nfull \x1b[2J"), "disk full [2J"),
        (KeyError(), "KeyError"),
        (_Mute(), "_Mute"),
        ("token=ghp_abcdefghijklmnopqrstuvwxyz0123456789", f"token={MARKER}"),
    ],
)
def test_message_of_an_error_is_one_harmless_line(what: str | Exception, shown: str) -> None:
    assert said(what) == shown


def test_long_error_is_cut_without_half_a_secret() -> None:
    assert said("x" * 5000) == "x" * 299 + "…"
    for room in range(2300, 2700, 7):
        assert "ghp_" not in said(" " * room + "ghp_abcdefghijklmnopqrstuvwxyz0123456789" * 2 + "x" * 500)


def test_message_of_an_error_ends_before_a_cut_secret() -> None:
    """If much was redacted, the end of the examined text becomes visible; half a token has lost its shape."""
    text = f"password={'x' * 2630} ghp_0123456789abcdefghij0123456789abcdef"
    assert "ghp_" not in said(text)
    assert said(f"{text[:100]} ghp_0123456789abcdefghij0123456789abcdef") == "password=[redacted] [redacted]"


def test_secret_with_invisible_characters_is_hidden() -> None:
    token = "ghp_aB3dE6gH1jK4mN7pQ0sT2vW5yZ8"
    for unseen in ("\x00", "\x1b", "\u200b", "\u2066", "\ufe0f"):
        told = said(f"refused: {token[:17]}{unseen}{token[17:]} is no token")
        assert token not in told, ascii(unseen)
        assert told.startswith("refused: [redacted]")


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"routingKey": "q7Rk2LmX9vT4bZ8wPc3N"}, {"routingKey": MARKER}),
        ({"routingKey": "orders.created"}, {"routingKey": "orders.created"}),
        ({"ParameterKey": "DbPassword", "ParameterValue": "x1"}, {"ParameterKey": "DbPassword", "ParameterValue": MARKER}),
        ({"headers": [["X-Api-Key", "x1y2"]]}, {"headers": [["X-Api-Key", MARKER]]}),
        ({"required": ["password", "email"]}, {"required": ["password", "email"]}),
        ({"backup_codes": ["1a", "2b"]}, {"backup_codes": MARKER}),
        ({"country_code": "49"}, {"country_code": "49"}),
    ],
)  # fmt: skip
def test_name_or_pair_decides_how_much_is_hidden(params: dict[str, Any], kept: dict[str, Any]) -> None:
    assert summarise(params) == kept
