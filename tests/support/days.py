"""Three simulated days of two hosts: sessions of Claude Code and Gemini CLI work in one shop, over a real gate.

``python -m tests.support.days [SEED]`` prints the resulting pages.
"""

import json
import random
import sys
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from heapq import heappop, heappush
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from callosum.hosts.adapters import ADAPTERS
from callosum.model import SECOND, Entry, Event, Verdict
from callosum.pages.dates import ONE_DAY, day_of, monday_of, start_of
from callosum.pages.day_page import DayPage
from callosum.pages.topic_page import TopicFinder, TopicPage
from callosum.pages.week_page import WeekPage
from tests.support.hooked import Hooked, hooked

FIRST: Final = date(2027, 3, 16)
DAYS: Final = 3
SHOP: Final = "/home/ann/shop"

Step = tuple[str, Mapping[str, Any], str]
"""One step of a session: the kind of tool, its params, and its end: done, an error, or ``lost`` (never reported)."""


class Task(NamedTuple):
    """A prompt for a session, the session's steps, and its answer."""

    prompt: str
    steps: tuple[Step, ...]
    answer: str


def read(file: str) -> Step:
    return "read", {"file_path": f"{SHOP}/{file}"}, "done"


def edit(file: str, old: str, new: str) -> Step:
    return "edit", {"file_path": f"{SHOP}/{file}", "old_string": old, "new_string": new}, "done"


def run(command: str, ends: str = "done") -> Step:
    return "run", {"command": command}, ends


def mail(to: str, subject: str, body: str, ends: str = "done") -> Step:
    return "mail", {"to": f"{to}@example.com", "subject": subject, "body": body}, ends


def transfer(to: str, amount: int) -> Step:
    return "transfer", {"to": to, "amount": amount, "currency": "EUR"}, "done"


_OLD: Final = "def total(cart):\n    return sum(cart)\n"
TASKS: Final = (
    Task(
        "Add the tax to the checkout",
        (
            read("checkout.py"),
            edit("checkout.py", _OLD, "def total(cart):\n    return sum(cart) * (1 + TAX)\n"),
            run("pytest tests/test_checkout.py", "2 failed, 11 passed"),
            edit("tax.py", "TAX = 0", "TAX = 0.19"),
            run("pytest tests/test_checkout.py"),
        ),
        "The checkout adds 19 % tax; all 13 tests pass.",
    ),
    Task(
        "Round the total in the checkout to cents",
        (
            read("checkout.py"),
            edit("checkout.py", _OLD, "def total(cart):\n    return round(sum(cart), 2)\n"),
            run("pytest tests/test_checkout.py"),
            run("git commit -am 'Round totals'"),
        ),
        "Totals are rounded to cents and committed.",
    ),
    Task(
        "Answer Alice about invoice 42",
        (
            read("invoices/42.md"),
            mail("alice", "Invoice 42", "Dear Alice, invoice 42 was paid on Monday by transfer. Best, Ann"),
        ),
        "Alice knows that invoice 42 is paid.",
    ),
    Task(
        "Tell Alice that invoice 42 is paid and remind Bob of his",
        (
            mail("alice", "Invoice 42", "Dear Alice, invoice 42 was paid on Monday by transfer. Best, Ann"),
            mail("bob", "Invoice 57", "Dear Bob, invoice 57 is due since Friday. Could you have a look? Best, Ann"),
        ),
        "Alice and Bob have their mails.",
    ),
    Task("Pay the printer", (read("invoices/61.md"), transfer("Print & Co", 240)), "The transfer waits for you."),
    Task(
        "Release version 2",
        (
            run("pytest"),
            run("git tag v2.0"),
            mail("team", "Version 2", "Version 2 is out. The notes are in the wiki.", "lost"),
        ),
        "Version 2 is tagged; I was stopped while I wrote to the team.",
    ),
    Task(
        "Clean up the build folder",
        (run("ls build"), run("rm -rf build/old"), run("make", "make: *** [all] Error 2"), run("make")),
        "The build folder is clean and the build works.",
    ),
)

_TOOLS: Final = {
    "claude-code": {"read": "Read", "edit": "Edit", "run": "Bash", "mail": "mcp__mail__send_email", "transfer": "bank_transfer"},
    "gemini": {"read": "read_file", "edit": "replace", "run": "run_shell_command", "mail": "mcp_mail_send_email", "transfer": "bank_transfer"},
}  # fmt: skip


class Session:
    """One session of a host, which reports its hook events. ``go`` yields the seconds until its next event."""

    def __init__(self, hosts: Hooked, host: str, name: str, tasks: list[Task], chance: random.Random) -> None:
        self.hosts, self.host, self.name, self.tasks, self.chance = hosts, host, name, tasks, chance
        self.calls = 0

    def send(self, event: str, **said: Any) -> str:
        payload = {"hook_event_name": event, "session_id": self.name, "cwd": SHOP, **said}
        return json.dumps(self.hosts.send(ADAPTERS[self.host], payload))

    def go(self) -> Iterator[float]:
        claude, wait = self.host == "claude-code", self.chance.uniform
        self.send("SessionStart", source="startup")
        for task in self.tasks:
            yield wait(5, 60)
            self.send("UserPromptSubmit" if claude else "BeforeAgent", prompt=task.prompt)
            for step in task.steps:
                yield wait(5, 90)
                yield from self.call(*step)
            yield wait(2, 20)
            if claude:
                self.send("Stop", last_assistant_message=task.answer)
            else:
                self.send("AfterAgent", prompt=task.prompt, prompt_response=task.answer)
        yield wait(5, 600)
        self.send("SessionEnd", reason="exit")

    def call(self, kind: str, params: Mapping[str, Any], ends: str) -> Iterator[float]:
        claude = self.host == "claude-code"
        tool = _TOOLS[self.host][kind]
        for _ in range(2):  # what is paused is made again, half of the time
            self.calls += 1
            said = {"tool_name": tool, "tool_input": params}
            if claude:
                said["tool_use_id"] = f"toolu_{self.name}_{self.calls}"
            if "deny" not in self.send("PreToolUse" if claude else "BeforeTool", **said):
                break
            yield self.chance.uniform(3, 30)
            if self.chance.random() < 0.5:
                return
        else:
            return
        yield self.chance.uniform(1, 40)
        if ends == "lost":
            return
        if ends == "done":
            self.send("PostToolUse" if claude else "AfterTool", **said, tool_response={"stdout": "ok"})
        elif claude:
            self.send("PostToolUseFailure", **said, error=ends)
        else:
            self.send("AfterTool", **said, tool_response={"error": {"message": ends}})


class Lived(NamedTuple):
    """The result of three days: the journal, and the pages by name."""

    entries: list[Entry]
    pages: dict[str, str]


def live(folder: Path, seed: int) -> Lived:
    """Return the result of sessions that work side by side for three days, with different chances each day."""
    with hooked(folder / "state") as hosts:
        for number in range(DAYS):
            _day(hosts, FIRST + number * ONE_DAY, random.Random(f"{seed}/{number}"))
        hosts.clock.advance(7200)
        hosts.gate.sweep()
        entries = [entry for entry in hosts.gate.store.entries(limit=10**6) if entry.seq >= start_of(FIRST)]
    return Lived(entries, pages_of(entries))


def _day(hosts: Hooked, day: date, chance: random.Random) -> None:
    """Run a day's sessions: two or three at a time, between nine and six."""
    heap: list[tuple[int, int, Iterator[float]]] = []
    for number in range(6):
        host = ("claude-code", "gemini")[number % 2]
        tasks = chance.sample(TASKS, chance.choice((1, 1, 2)))
        begins = start_of(day) + round((9 + 1.5 * (number // 2) + chance.uniform(0, 0.1)) * 3600) * SECOND
        name = f"{day:%d}{'ab'[number % 2]}{number // 2}"
        heappush(heap, (begins, number, Session(hosts, host, name, tasks, chance).go()))
    answered: set[int] = set()
    while heap:
        hosts.clock.now, number, session = heappop(heap)
        wait = next(session, None)
        if wait is not None:
            heappush(heap, (hosts.clock.now + round(wait * SECOND), number, session))
        _answer(hosts, chance, answered)


def _answer(hosts: Hooked, chance: random.Random, answered: set[int]) -> None:
    """Let a person answer some of the open questions."""
    for asked in hosts.gate.status().asked:
        if asked.id not in answered:
            answered.add(asked.id)
            hosts.clock.advance(1)
            said = chance.random()
            if said < 0.4:
                hosts.gate.approve(asked.id, by="ann")
            elif said < 0.7:
                hosts.gate.deny(asked.id, by="ann")


def pages_of(entries: list[Entry]) -> dict[str, str]:
    """Return the pages for a journal, by name."""
    pages: dict[str, str] = {}
    week, returns = WeekPage(monday_of(FIRST)), TopicFinder()
    for number in range(DAYS):
        day = DayPage(FIRST + timedelta(days=number))
        for entry in entries:
            if day_of(entry.seq) == day.day:
                day.add(entry)
        pages[day.day.isoformat()] = day.page(so_far=False)
    for entry in entries:
        week.add(entry)
        returns.add(entry)
    heads = {date.fromisoformat(name): text.splitlines()[2] for name, text in pages.items()}
    pages[week.name] = week.page(heads)
    for key, namespace in returns.topics(FIRST + (DAYS - 1) * ONE_DAY):
        topic = TopicPage(key, namespace)
        for entry in entries:
            topic.add(entry)
        pages[topic.path] = topic.page()
    return pages


def held_back(entries: list[Entry]) -> list[Entry]:
    """Return the calls that were not let through."""
    return [
        entry for entry in entries if entry.event is Event.INTERCEPT and not (entry.verdict or Verdict.ALLOW).proceed
    ]


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        lived = live(Path(made), int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print("\n\n".join(f"=== {name}\n{text}" for name, text in lived.pages.items()))
