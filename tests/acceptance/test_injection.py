"""Text that sessions write stays data wherever it is shown: every hostile text, in every field, in every output."""

import json
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest

from callosum.brain import Brain
from callosum.brief import HEAD
from callosum.characters import is_shown
from callosum.gate import LocalGate
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.claude_code.transcript import ClaudeCodeTranscript
from callosum.pages.dates import day_of, monday_of
from callosum.pages.day_page import DayPage
from callosum.pages.topic_page import TopicPage
from callosum.pages.week_page import WeekPage
from callosum.settings import load
from callosum.testing import ManualClock
from callosum.wire import MAX_BUDGET
from tests.acceptance.command import run
from tests.support.hooked import Hooked
from tests.support.speaking import SPEAKING

LONG = 4000
RULES = {"rules": [{"tool": "bank_transfer", "tier": 4, "verdict": "ask"}]}
COMMANDS = {
    "status": ("status",),
    "journal": ("journal", "-n", "0"),
    "journal, each entry": ("journal", "--entries", "-n", "0"),
    "watch": ("watch", "--once"),
    "events": ("events", "-n", "0"),
    "report": ("report",),
    "search": ("search", "PWNED"),
    "brief": ("brief", "--instance", "mira", "--cwd", "/r"),
}


class Shown(NamedTuple):
    """The outputs that show the work of sessions with hostile texts, by name."""

    sentences: dict[str, str]
    briefs: dict[str, str]
    pages: dict[str, str]
    printed: dict[str, str]
    log: str


class Session:
    """A session of Claude Code whose texts are all one hostile text."""

    def __init__(self, host: Hooked, name: str, file: str, text: str) -> None:
        self.host, self.name, self.file, self.text = host, name, file, text[:LONG]
        self.calls = 0

    def send(self, event: str, **said: Any) -> str:
        payload = {"hook_event_name": event, "session_id": self.name, "cwd": "/r", **said}
        printed = self.host.send(ADAPTERS["claude-code"], payload).get("hookSpecificOutput", {})
        return str(printed.get("permissionDecisionReason") or printed.get("additionalContext") or "")

    def call(self, tool: str, params: dict[str, Any], *, fails: bool = False) -> str:
        self.calls += 1
        said = {"tool_name": tool, "tool_input": params, "tool_use_id": f"toolu_{self.name}_{self.calls}"}
        answer = self.send("PreToolUse", **said)
        if not answer:
            if fails:
                self.send("PostToolUseFailure", **said, error=self.text)
            else:
                self.send("PostToolUse", **said, tool_response={"stdout": self.text})
        return answer

    def edit(self) -> str:
        params = {"file_path": self.file, "old_string": "def f():\n    x", "new_string": f"def f():\n  {self.text}\n"}
        return self.call("Edit", params)

    def work(self) -> None:
        """Do everything that any output shows, with the text in each field."""
        text = self.text
        self.send("UserPromptSubmit", prompt=text)
        self.edit()
        self.call("Write", {"file_path": f"/r/{text[:200]}.py", "content": text})
        self.call("Bash", {"command": f"make # {text}", "description": text}, fails=True)
        self.mail("alice")
        self.call("mcp__calendar__create_event", {"title": text, "start": text, "calendar": "c1"})
        self.call(f"mcp__shop__{text[:60]}", {"order_id": text, text[:100]: text}, fails=True)
        self.call("bank_transfer", {"to": text, "amount": 5, "currency": text, "reference": text})
        self.send("PreToolUse", tool_name="mcp__mail__send_email", tool_input=_mail("lost", text), tool_use_id="lost")
        self.send("Stop", last_assistant_message=text)
        self.send("SessionEnd", reason=text)

    def mail(self, to: str) -> str:
        return self.call("mcp__mail__send_email", _mail(f"{to}-{self.file[3:-3]}", self.text))


def _mail(to: str, text: str) -> dict[str, str]:
    return {"to": f"{to}@example.com", "subject": text, "body": text}


def _transcript(text: str) -> bytes:
    line = {
        "type": "system", "subtype": "api_error", "timestamp": "2026-11-20T09:00:00.000Z",
        "error": {"message": text}, "retryAttempt": 1, "maxRetries": 2,
    }  # fmt: skip
    return json.dumps(line).encode()


@pytest.fixture(scope="module")
def outputs_by_name(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    state = tmp_path_factory.mktemp("shown") / "state"
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps(RULES))
    sentences: dict[str, str] = {}
    briefs: dict[str, str] = {}
    with LocalGate(settings=load({"state": state})) as gate, Brain(gate) as brain:
        host = Hooked(brain, ManualClock())
        for number, (name, text) in enumerate(SPEAKING.items()):
            one, other = (Session(host, f"{who}{number}", f"/r/{number}.py", text) for who in "ab")
            other.call("Read", {"file_path": one.file})
            one.work()
            sentences[name] = f"{other.edit()}\n{other.mail('alice')}"
            fresh = brain.brief("claude-code", f"c{number}", cwd="/r", budget=MAX_BUDGET).text
            briefs[name] = f"{other.send('SessionStart', source='compact')}\n{fresh}"
            for event in ClaudeCodeTranscript().read(_transcript(text)):
                brain.corpus.emit(event)
        assert brain.gate.follower.flush(30)
        entries = gate.store.entries(limit=100_000)
        day, week = DayPage(day_of(entries[-1].seq)), WeekPage(monday_of(day_of(entries[-1].seq)))
        topics = [TopicPage(f"file:/r/{number}.py") for number in range(len(SPEAKING))]
        for entry in entries:
            day.add(entry)
            week.add(entry)
            for topic in topics:
                topic.add(entry)
    pages = {"day": day.page(so_far=True), "week": week.page({}), "topics": "".join(topic.page() for topic in topics)}
    printed = {place: run(state, *words).stdout for place, words in COMMANDS.items()}
    log = "".join(path.read_text() for path in sorted((state / "brain" / "corpus").glob("*.log.md")))
    return Shown(sentences, briefs, pages, printed, log)


def check_lines(text: str) -> None:
    """Check every line as a reader sees it."""
    for line in text.split("\n"):
        assert is_shown(line), line
        assert line.isprintable(), line


@pytest.mark.parametrize("text", SPEAKING)
def test_sentences_quote_hostile_text(outputs_by_name: Shown, text: str) -> None:
    sentence = outputs_by_name.sentences[text]
    check_lines(sentence)
    assert "[Callosum] Conflict: " in sentence
    assert "What claude-code/a" in sentence
    own = [line for line in sentence.split("\n") if not line.startswith("| ")]
    assert "PWNED" not in re.sub(r'"[^"]*"', "", "\n".join(own))
    assert sum(re.sub(r'"[^"]*"', "", line).count("[Callosum]") for line in own) == 2  # of an edit and a mail


@pytest.mark.parametrize("text", SPEAKING)
def test_briefs_quote_hostile_text(outputs_by_name: Shown, text: str) -> None:
    brief = outputs_by_name.briefs[text]
    check_lines(brief)
    assert "- claude-code/a" in brief
    assert re.search(r" ended (just now|\d+ (s|min) ago): ", brief)
    bare = re.sub(r'"[^"]*"', "", brief)
    assert "PWNED" not in bare
    assert bare.count("[Callosum]") == 2
    assert all(re.match(r"(\[Callosum\] |- |\(\d+ more |[A-Z][^:]*:$)", line) for line in brief.split("\n"))


@pytest.mark.parametrize("place", ["day", "week", "topics"])
def test_pages_keep_hostile_text_in_code_spans(outputs_by_name: Shown, place: str) -> None:
    page = outputs_by_name.pages[place]
    check_lines(page)
    assert "PWNED" in page
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", page)
    assert "PWNED" not in outside
    assert not set("<[|") & set(re.sub(r"^- \[[\d-]+\]\([^)]*\)|^- [\d-]+$", "", outside, flags=re.MULTILINE))


@pytest.mark.parametrize("place", COMMANDS)
def test_commands_print_hostile_text_without_line_breaks_of_its_own(outputs_by_name: Shown, place: str) -> None:
    text = outputs_by_name.printed[place]
    check_lines(text)
    assert "PWNED" in text
    own = text.removeprefix(HEAD).replace("[Callosum] Tier 4 action not run", "")  # the sentence that the session got
    assert not re.search(r"^(\[Callosum\]|PWNED|## |- 09:00|12:00:00)", own, re.MULTILINE)


def test_daily_log_has_one_line_for_each_event(outputs_by_name: Shown) -> None:
    kinds: Counter[str] = Counter()
    for line in outputs_by_name.log.split("\n"):
        if not line or line.startswith("## 20"):
            continue
        assert is_shown(line), line
        clock, kind, payload = line.split(" | ", 2)
        assert re.fullmatch(r"\d\d:\d\d:\d\d", clock)
        assert isinstance(json.loads(payload), dict)
        kinds[kind] += 1
    assert "PWNED" in outputs_by_name.log
    assert kinds["llm.error"] == len(SPEAKING)
    assert "safety.approved" not in kinds
