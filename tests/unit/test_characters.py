"""The list of hidden characters is complete, and every place that prints text uses it."""

import json
import unicodedata

import pytest

from callosum.characters import escaped, is_shown, without_hidden
from callosum.errors import ConfigError
from callosum.gate.check import check_name

IGNORABLE = [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)]
IGNORABLE += [
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0, 0xFEFF, *range(0xFFF0, 0xFFF9),
]  # fmt: skip
"""Code points with Unicode's property Default_Ignorable_Code_Point that have no telling category."""


def test_list_holds_every_character_of_the_hidden_categories() -> None:
    hidden = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    missing = [
        hex(code) for code in range(0x110000) if unicodedata.category(chr(code)) in hidden and is_shown(chr(code))
    ]
    assert missing == []


def test_list_holds_what_unicode_ignores_and_what_shows_as_a_blank() -> None:
    blank = (0x2800, 0xFFFC, 0xFFFE, 0xFFFF, *range(0xFDD0, 0xFDF0), 0x1D159, 0x16FE4)
    assert [hex(code) for code in (*IGNORABLE, *blank) if is_shown(chr(code))] == []


@pytest.mark.parametrize("code", [0xFFFC, 0xFDD0, 0x1D159, 0x16FE4, 0x202E])
def test_name_holds_no_character_that_shows_nothing(code: int) -> None:
    with pytest.raises(ConfigError, match="broken Unicode"):
        check_name(f"mi{chr(code)}ra", "instance")
    check_name("Größe 日本語 🙂\u3000", "instance")


@pytest.mark.parametrize("text", ["alice", "Größe 日本語 🙂", "a b", "п", "e\u0301", "\u3000"])
def test_letters_marks_and_spaces_are_shown(text: str) -> None:
    assert is_shown(text)
    assert without_hidden(text) == escaped(text) == text


def test_escaped_json_reads_as_the_same_text() -> None:
    text = "".join(chr(code) for code in range(0x20, 0x3000) if chr(code) not in '"\\') + "\U000e0041\U0010fffd🙂"
    written = escaped(json.dumps(text, ensure_ascii=False))
    assert is_shown(written)
    assert json.loads(written) == text
