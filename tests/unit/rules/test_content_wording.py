"""Nearly equal texts: the stored sketch, and how well it distinguishes texts."""

from typing import Any

import msgspec
import pytest

from bench.wording import DATA, measure, texts
from callosum.model import Call, Content
from callosum.rules import RuleSet, near
from callosum.rules.wording import MAX_TEXT, gather

RULES = RuleSet.parse(secret=b"secret")


def content_of_call(tool: str = "message", origin: str | None = None, **params: Any) -> Content:
    if tool == "message":
        params = {"action": "send", "target": "x", **params}
    return RULES.classify(Call("a", tool, params, origin=origin)).content


def content_of_text(text: str) -> Content:
    return content_of_call(message=text)


PLAIN = "the nightly build of the billing service finished and the report is in the usual folder"

NEAR = {
    "a greeting": (PLAIN, f"Hi Anna, {PLAIN}"),
    "a signature": (PLAIN, f"{PLAIN}. Best regards, Mira"),
    "both": (PLAIN, f"Good morning everyone! {PLAIN}.\n\nMany thanks,\nMira"),
    "another greeting": (f"Hello Anna, {PLAIN}", f"Hi all, {PLAIN}"),
    "case and punctuation": (PLAIN, PLAIN.upper().replace(" AND", "; and")),
    "everyday words": (PLAIN, PLAIN.replace("is in the usual", "can be found in our usual")),
    "a word dropped": (PLAIN, PLAIN.replace(" usual", "")),
    "an apostrophe": ("it's the disk of the builder that is full", "it\u2019s the disk of the builder that is full"),
    "markdown": (PLAIN, f"**{PLAIN}**"),
    "the same number": (f"{PLAIN} (41 jobs)", f"Hi, {PLAIN} (41 jobs)."),
    "a script without spaces": ("明日の会議は午後三時から本社の会議室で行います", "明日の会議は午後三時から本社の会議室で行います。"),
    "Cyrillic": ("отчёт о ночной сборке лежит в обычной папке на сервере", "Отчёт о ночной сборке лежит в обычной папке, на сервере!"),
}  # fmt: skip
FAR = {
    "another number": (f"{PLAIN} (41 jobs)", f"{PLAIN} (42 jobs)"),
    "a number more": (PLAIN, f"{PLAIN} (42 jobs)"),
    "a number twice": (f"{PLAIN} 3 of 4", f"{PLAIN} 3 of 4 and 4"),
    "a number inside a word": (f"{PLAIN} for v1", f"{PLAIN} for v2"),
    "a time": (f"{PLAIN} at 10:30", f"{PLAIN} at 11:30"),
    "a denial": (PLAIN, PLAIN.replace("finished", "has not finished")),
    "a second denial": (f"not that {PLAIN}", f"not that {PLAIN.replace('is in', 'is not in')}"),
    "a day": (f"{PLAIN} on Monday", f"{PLAIN} on Tuesday"),
    "a name": (f"{PLAIN} for Anna", f"{PLAIN} for Bob"),
    "a place": (f"{PLAIN} in Lisbon, as always", f"{PLAIN} in Kyoto, as always"),
    "another thing, in a short text": ("Deploy of billing to staging went well", "Deploy of payroll to staging went well"),
    "an acknowledgement and the answer": (
        "On it, I will have a look at the build",
        "On it, I will have a look at the build. The disk of the second node was full; I cleaned it and ran the job.",
    ),
    "another text": (PLAIN, "the garden party is moved to the large hall because of the rain that is expected"),
    "short": ("please call me", "please call me!"),
    "courtesy alone": ("good morning everyone and many thanks to all", "good morning everybody and kind regards to all"),
    "the name of Cyrillic": ("отчёт для Анны лежит в обычной папке", "отчёт для Ивана лежит в обычной папке"),
}  # fmt: skip


@pytest.mark.parametrize("case", NEAR)
def test_nearly_equal_texts_count_as_the_same(case: str) -> None:
    one, two = map(content_of_text, NEAR[case])
    assert one.digest != two.digest
    assert near(one, two)
    assert near(two, one)


@pytest.mark.parametrize("case", FAR)
def test_different_texts_do_not_count_as_the_same(case: str) -> None:
    one, two = map(content_of_text, FAR[case])
    assert not near(one, two)
    assert not near(two, one)


def test_sketch_is_bounded_and_reveals_no_text() -> None:
    many = " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676)} {i}" for i in range(9_000))
    content = content_of_call(message=many, origin="webhook-7" * 100)
    assert (len(content.words), len(content.numbers)) == (256, 16)
    assert len(msgspec.msgpack.encode(content)) <= 350
    assert b"word" not in content.words


def test_sketch_depends_on_the_content_key() -> None:
    call = Call("a", "message", {"action": "send", "target": "x", "message": PLAIN + " 41"})
    other = RuleSet.parse(secret=b"other").classify(call).content
    mine = RULES.classify(call).content
    assert mine.words != other.words
    assert mine.numbers != other.numbers
    assert not near(mine, other)


def test_numbers_beyond_the_sampled_text_count() -> None:
    long = "the report of the night " * (MAX_TEXT // 20)
    assert (
        near(content_of_text(long + "41"), content_of_text("Hi, " + long.strip() + " 41")) is False
    )  # where it is cut has moved
    assert near(content_of_text(long + "41 jobs"), content_of_text(long + "41 items"))
    assert not near(content_of_text(long + "41 jobs"), content_of_text(long + "42 jobs"))


def test_dates_and_amounts_beside_a_text_count() -> None:
    def event(**when: Any) -> Content:
        return content_of_call("create_event", title="Weekly review of the design team", **when)

    assert near(event(start="2026-05-04T10:00"), event(start="2026-05-04T10:00 ", location="Room of the design team"))
    assert not near(event(start="2026-05-04T10:00"), event(start="2026-05-11T10:00"))
    assert not near(
        event(start={"dateTime": "2026-05-04T10:00:00Z"}), event(start={"dateTime": "2026-05-05T10:00:00Z"})
    )
    pay = {"recipient": "x", "note": "the rent for our flat in the old town"}
    assert near(
        content_of_call("send_payment", amount="5.00", **pay), content_of_call("send_payment", amount=" 5.00", **pay)
    )
    assert not near(
        content_of_call("send_payment", amount="5.00", **pay), content_of_call("send_payment", amount="6.00", **pay)
    )


def test_values_other_than_text_are_compared_exactly() -> None:
    flight = {"from": "San Francisco", "airline": "northern air lines", "seat": "economy window seat"}
    assert not near(
        content_of_call("book_flight", to="new york", **flight),
        content_of_call("book_flight", to="new delhi", **flight),
    )
    assert gather({"from": "San Francisco", "to": "New York"})[0] == ""
    assert gather({"what": "an unnamed text of several words"})[0] == "an unnamed text of several words"


def test_one_option_makes_another_command() -> None:
    mail = "curl --url smtps://mail.example.com --mail-from me@example.com --mail-rcpt alice@example.com -T mail.txt"
    about = "Send the mail about the offer to Alice"
    one, two, again = (
        content_of_call("exec", command=command, description=about) for command in (mail, mail + " --dry-run", mail)
    )
    assert one.digest == again.digest
    assert one.digest != two.digest
    assert not near(one, two)


def test_malformed_sketches_match_nothing() -> None:
    assert not near(Content(words=b"abcde"), Content(words=b"abcdef"))
    assert not near(Content(), Content())


@pytest.mark.parametrize("half", ["tuning", "test"])
def test_recall_and_false_matches_on_real_texts(half: str) -> None:
    """The figures of the docs with a margin: ``python -m bench.wording`` prints them."""
    if not (DATA / "tools.jsonl").exists():
        pytest.skip(f"the recorded texts are not here: {DATA}")
    found = [text for text in texts(DATA) if text.half == half]
    figures = measure([text for text in found if text.source == "descriptions"])
    assert figures["other texts"].total > 100_000
    assert figures["greeting or signature"].share >= 0.96
    assert figures["words dropped"].share >= 0.94
    assert figures["small rewording"].share >= 0.92
    assert figures["another number"].hits == figures["denied"].hits == 0
    assert figures["another name"].share <= 0.01
    assert figures["other texts"].share <= 0.0003
    messages = measure([text for text in found if text.source == "messages"])
    assert messages["words dropped"].share == 1
    assert messages["other texts"].hits == messages["another number"].hits == messages["denied"].hits == 0


def test_measure_rejects_a_comparison_that_accepts_everything_or_nothing() -> None:
    """A measure that takes everything, or nothing, for equal does not pass for a good one."""
    if not (DATA / "tools.jsonl").exists():
        pytest.skip(f"the recorded texts are not here: {DATA}")
    few = [text for text in texts(DATA) if text.source == "descriptions"][:60]
    everything, nothing = measure(few, lambda a, b: True), measure(few, lambda a, b: False)
    assert everything["other texts"].share == everything["another number"].share == 1
    assert nothing["small rewording"].share == nothing["words dropped"].share == 0
