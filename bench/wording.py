"""How well nearly equal texts are told from others by what the gate keeps of them: its own recall and false matches.

``python -m bench.wording [--data DIR]`` prints the figures. The texts are those of the recorded calls (messages,
mails, notes) and, since these are few and short, the descriptions in the tool catalogues: prose of one to many
sentences, in which neighbours differ by a word. Pairs are made of each text by rules that know nothing of the sketch.
Texts are split by the hash of their words into a half that was looked at and one that was not.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from callosum.model import Call, Content
from callosum.rules import RuleSet, near

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
LONGEST: Final = 120
"""Words that are taken of a description."""
_RULES: Final = RuleSet.parse(secret=b"wording")
_PREAMBLE: Final = "Tool description:"
"""What stands before it is the same for all tools of one catalogue: a frame with another content each time."""
_NOT_TEXT: Final = frozenset("command query destination path sql code".split())

# --- pairs --------------------------------------------------------------------------------------------

_GREETINGS: Final = (
    "Hi all,", "Hello Anna,", "Dear team,", "Good morning,", "Hey everyone!", "Dear Mr. Novak,", "Hi there,", "Hello,",
    "Good afternoon Priya,", "Dear Sir or Madam,",
)  # fmt: skip
_CLOSINGS: Final = (
    "Best regards, Mira", "Thanks!", "Kind regards,\nDoug", "Cheers, Tom", "Best,\nThe team", "Many thanks, Ines",
    "Sincerely, Mira Holt", "Thank you.", "-- \nsent by your assistant", "Let me know if you have any questions.",
)  # fmt: skip
_SAME: Final = {
    "please": "kindly", "kindly": "please", "send": "forward", "returns": "gives", "return": "give", "get": "fetch",
    "gets": "fetches", "retrieve": "fetch", "retrieves": "fetches", "fetch": "get", "list": "show", "lists": "shows",
    "create": "make", "creates": "makes", "update": "change", "updates": "changes", "delete": "remove",
    "deletes": "removes", "use": "employ", "using": "with", "information": "details", "details": "information",
    "specific": "particular", "specified": "given", "given": "specified", "current": "present", "all": "every",
    "about": "regarding", "regarding": "about", "find": "locate", "search": "look", "provide": "supply",
    "provided": "supplied", "issue": "problem", "issues": "problems", "need": "require", "require": "need",
    "when": "once", "before": "ahead of", "after": "following", "add": "attach", "adds": "attaches", "new": "fresh",
    "existing": "present", "optional": "possible", "help": "assist", "assist": "help", "assistance": "help",
    "multiple": "several", "including": "with", "based": "depending", "show": "display", "view": "see",
    "contains": "holds", "containing": "with", "within": "in", "set": "put", "run": "execute", "only": "just",
    "meeting": "call", "quick": "fast", "large": "big", "start": "begin", "end": "finish", "also": "too",
    "such": "like", "will": "shall", "can": "may", "the": "this", "a": "the", "my": "our", "for": "of",
    "in": "inside", "to": "towards", "and": "plus", "is": "gets", "with": "by",
}  # fmt: skip
"""What a writer may say instead. The first words are preferred, function words are at the end."""
_RANK: Final = {word: rank for rank, word in enumerate(_SAME)}
_EXTRA: Final = ("now", "just", "simply", "already", "currently", "again")


def greeted(words: list[str], chance: random.Random) -> str:
    """A greeting before it, a signature behind it, or both."""
    text = " ".join(words)
    kind = chance.randrange(3)
    first = f"{chance.choice(_GREETINGS)} " if kind != 1 else ""
    last = f" {chance.choice(_CLOSINGS)}" if kind != 0 else ""
    return f"{first}{text}{last}"


def dropped(words: list[str], chance: random.Random) -> str:
    """5 to 20 % of the words are gone, at least one; never a number or a word of denial."""
    count = max(1, round(len(words) * chance.uniform(0.05, 0.2)))
    free = [place for place, word in enumerate(words) if not _turns(word)]
    gone = set(chance.sample(free, min(count, len(free))))
    return " ".join(word for place, word in enumerate(words) if place not in gone)


def reworded(words: list[str], chance: random.Random) -> str:
    """About one word in ten, at least one, said otherwise; sometimes a filler more."""
    known = sorted(
        (place for place, word in enumerate(words) if _bare(word) in _SAME),
        key=lambda place: (_RANK[_bare(words[place])], place),
    )
    made = list(words)
    for place in known[: max(1, round(len(words) / 10))]:
        instead = _SAME[_bare(words[place])]
        made[place] = words[place].lower().replace(_bare(words[place]), instead, 1)
        if words[place][:1].isupper():
            made[place] = made[place][:1].upper() + made[place][1:]
    if not known or chance.randrange(3) == 0:
        made.insert(chance.randrange(1, len(made)), chance.choice(_EXTRA))
    return " ".join(made)


def renumbered(words: list[str], chance: random.Random) -> tuple[str, str]:
    """A number is another one; one is put in where there is none."""
    places = [place for place, word in enumerate(words) if re.search(r"\d", word)]
    if places:
        place, more = chance.choice(places), chance.randrange(1, 9)
        made = list(words)
        made[place] = re.sub(r"\d+", lambda found: str(int(found.group()[:9]) + more), words[place], count=1)
        return " ".join(words), " ".join(made)
    place = chance.randrange(1, len(words))
    first, second = chance.sample(range(2, 90), 2)
    return tuple(" ".join([*words[:place], f"{one} items", *words[place:]]) for one in (first, second))  # type: ignore[return-value]


def of_another_thing(words: list[str], chance: random.Random) -> str:
    """Replace the longest word, which names the subject. A synonym looks the same to the sketch."""
    length = max(len(_bare(word)) for word in words)
    place = chance.choice([place for place, word in enumerate(words) if len(_bare(word)) == length])
    return " ".join([*words[:place], chance.choice(_THINGS), *words[place + 1 :]])


def denied(words: list[str], chance: random.Random) -> str:
    """A ``not`` more."""
    place = chance.randrange(1, len(words))
    return " ".join([*words[:place], "not", *words[place:]])


_NAMES: Final = "Anna Bob Priya Tom Ines Novak Berlin Acme Globex Lisbon Initech Kyoto".split()

_THINGS: Final = "warehouse violin invoice telescope orchard ferry kitchen passport battery gallery".split()


def renamed(words: list[str], chance: random.Random) -> tuple[str, str]:
    """Return the same text about another person: a name in it is replaced."""
    place = chance.randrange(1, len(words))
    first, second = chance.sample(_NAMES, 2)
    return tuple(" ".join([*words[:place], "for", one, *words[place:]]) for one in (first, second))  # type: ignore[return-value]


def _bare(word: str) -> str:
    return word.lower().strip(".,:;!?()\"'`")


def _turns(word: str) -> bool:
    return bool(re.search(r"\d", word)) or _bare(word) in ("not", "no", "never", "don't", "without", "cannot", "can't")


# --- texts --------------------------------------------------------------------------------------------


class Text(NamedTuple):
    """One text. ``about`` tells what it is about: texts about one thing are no pair of others."""

    source: str
    about: str
    words: list[str]

    @property
    def half(self) -> str:
        digest = blake2b(" ".join(self.words).encode("utf-8", "surrogatepass")).digest()
        return "test" if digest[0] % 2 else "tuning"


def texts(folder: Path) -> list[Text]:
    """The texts, each once. Raises ``OSError`` where a file is not there."""
    found: dict[str, Text] = {}
    for line in (folder / "traces.jsonl").read_text("utf-8").splitlines():
        for said in _strings(json.loads(line)["args"]):
            if len(words := said.split()) >= 5:
                found.setdefault(" ".join(words).lower(), Text("messages", said, words))
    for line in (folder / "tools.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        preamble, _, said = (row["description"] or "").rpartition(_PREAMBLE)
        for source, text in (("descriptions", said), ("one preamble", f"{preamble} {said}" if preamble else "")):
            if len(words := text.split()[:LONGEST]) >= 6:
                found.setdefault(" ".join(words).lower(), Text(source, row["tool"].lower(), words))
    return list(found.values())


def _strings(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str) and name not in _NOT_TEXT:
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _strings(one, str(key))
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one, name)


# --- measuring ----------------------------------------------------------------------------------------


def kept(text: str) -> Content:
    """What the gate keeps of a message."""
    return _RULES.classify(Call("a", "message", {"action": "send", "target": "x", "message": text})).content


class Figure(NamedTuple):
    """``hits`` of ``total`` pairs were taken for nearly equal; ``wanted`` says whether they are."""

    hits: int
    total: int
    wanted: bool

    @property
    def share(self) -> float:
        return self.hits / self.total if self.total else 0.0


def measure(found: list[Text], alike: Callable[[Content, Content], bool] = near) -> dict[str, Figure]:
    """The figures of some texts, by kind of pair."""
    hits: dict[str, list[bool]] = {}
    for text in found:
        chance = random.Random(" ".join(text.words))
        whole = kept(" ".join(text.words))

        def same(one: Content, two: Content) -> bool:
            return one.digest == two.digest or alike(one, two)

        hits.setdefault("greeting or signature", []).append(same(whole, kept(greeted(text.words, chance))))
        hits.setdefault("words dropped", []).append(same(whole, kept(dropped(text.words, chance))))
        hits.setdefault("small rewording", []).append(same(whole, kept(reworded(text.words, chance))))
        hits.setdefault("another thing", []).append(same(whole, kept(of_another_thing(text.words, chance))))
        hits.setdefault("another number", []).append(same(*map(kept, renumbered(text.words, chance))))
        hits.setdefault("denied", []).append(same(whole, kept(denied(text.words, chance))))
        hits.setdefault("another name", []).append(same(*map(kept, renamed(text.words, chance))))
    contents = [(text.about, kept(" ".join(text.words))) for text in found]
    count = wrong = 0
    for place, (about, one) in enumerate(contents):
        for other_about, other in contents[place + 1 :]:
            if about != other_about:
                count += 1
                wrong += alike(one, other)
    figures = {name: Figure(sum(one), len(one), name in _WANTED) for name, one in hits.items()}
    figures["other texts"] = Figure(wrong, count, False)
    return figures


_WANTED: Final = ("greeting or signature", "words dropped", "small rewording")


def main() -> int:
    """Prints the figures of both halves."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="the folder with traces.jsonl and tools.jsonl")
    try:
        found = texts(options.parse_args().data)
    except OSError as fault:
        print(f"the texts are not there: {fault}", file=sys.stderr)
        return 2
    for half in ("tuning", "test"):
        for source in ("messages", "descriptions", "one preamble"):
            mine = [text for text in found if (text.half, text.source) == (half, source)]
            print(f"\n{half} half, {len(mine)} {source}")
            for name, figure in measure(mine).items():
                print(f"  {name:24} {figure.hits:6} of {figure.total:7}  {100 * figure.share:8.3f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
