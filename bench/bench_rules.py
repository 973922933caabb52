"""What classifying costs: by kind of call, and against ten and a thousand rules.

Run with ``python -m bench.bench_rules``. Each figure is the median of many short runs, in microseconds.
"""

from __future__ import annotations

import json
import statistics
import timeit

from callosum.model import Call
from callosum.rules import RuleSet

CALLS = {
    "write": Call("a", "write", {"path": "/a/b.txt", "content": "hello"}),
    "write, relative": Call("a", "Write", {"file_path": "src/b.txt", "content": "hello"}, cwd="/w"),
    "read": Call("a", "read", {"path": "/a/b.txt"}),
    "message": Call("a", "message", {"action": "send", "target": "andy", "message": "I will look at it"}),
    "message, 60 words": Call(
        "a", "message", {"action": "send", "target": "andy", "message": "we looked at it again and saw no fault " * 7}
    ),
    "shell": Call("a", "Bash", {"command": "ls -la && make test"}, cwd="/w"),
    "shell, mail": Call("a", "Bash", {"command": "curl smtp://mx --mail-rcpt a@x.org -T mail.txt"}),
    "judged read": Call("a", "get_ticket", {"ticket_id": 5}),
    "judged write": Call("a", "update_ticket", {"ticket_id": 5, "status": "x"}),
    "judged mail": Call("a", "send_email", {"to": "a@x.org", "subject": "hi", "body": "see you at noon then"}),
}


def microseconds(rules: RuleSet, call: Call) -> float:
    """Returns the median time of one classification."""
    runs = timeit.repeat(lambda: rules.classify(call), number=500, repeat=41)
    return statistics.median(runs) / 500 * 1e6


def many(kind: str, count: int) -> RuleSet:
    """Returns ``count`` rules of one kind before the default set."""
    rules: list[dict[str, object]] = []
    for i in range(count):
        if kind == "tool":
            rules.append({"tier": 2, "tool": f"tool_{i}"})
        elif kind == "params":
            rules.append({"tier": 2, "tool": "Bash", "params": {"kind": f"k{i}"}})
        else:
            rules.append({"tier": 2, "tool": "Bash", "commandPattern": f"\\bcmd{i}\\s"})
    return RuleSet.parse(json.dumps({"rules": rules}))


def main() -> None:
    rules = RuleSet.parse(secret=b"k" * 32, protected=("/home/u/.local/state/callosum",))
    for name, call in CALLS.items():
        print(f"{name:20} {microseconds(rules, call):7.2f}")
    call = Call("a", "Bash", {"command": "ls -la && make test", "kind": "none"}, cwd="/w")
    for kind in ("tool", "params", "commandPattern"):
        ten, thousand = (microseconds(many(kind, count), call) for count in (10, 1000))
        print(f"{kind:20} {ten:7.2f} with 10 rules, {thousand:7.2f} with 1,000: {thousand / ten:.2f} times")


if __name__ == "__main__":
    main()
