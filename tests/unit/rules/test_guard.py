"""The gate guards itself, and does not cry wolf over a mention."""

import json
from typing import Any

import pytest

from callosum.model import Call, Verdict
from callosum.rules import RuleSet
from callosum.rules.guard import ENDPOINTS
from callosum.server.app import ENDPOINTS as SERVED

STATE = "/home/u/.local/state/callosum"
RULES = RuleSet.parse(
    json.dumps({"rules": [{"name": "lenient", "tier": 0, "tool": "*", "judge": False}]}),
    protected=(STATE, "/srv/rules/mine.json"),
    ports=(7700, 7801),
)

COMMANDS = [
    "callosum approve 17",
    "callosum deny 17",
    "callosum release email:a@x.org",
    "callosum resolve 5 --happened",
    "callosum off --for 1h",
    "callosum install claude-code --http http://127.0.0.1:9 --yes",
    "callosum uninstall codex --yes",
    "callosum hook claude-code < ended.json",
    "/srv/state/callosum-hook claude-code < ended.json",
    "cat ended.json | callosum-hook codex",
    "callosum uninstall",
    "callosum --url http://x stop",
    "python -m callosum off",
    "python3.12 -m callosum approve 1",
    "/opt/v/bin/callosum off",
    "sudo -E callosum off",
    "env X=1 callosum off",
    "uvx callosum off",
    "cd /tmp && (ls; callosum off)",
    "true | xargs callosum approve",
    "timeout 5 callosum off",
    "sh -c 'callosum off'",
    'bash -c "cd x; callosum off"',
    "echo 'callosum off' | sh",
    "pip uninstall -y callosum-protocol",
    "pkill -f callosum",
    "systemctl stop callosum",
    "curl -X POST http://127.0.0.1:7700/lock",
    "curl localhost:7801/status",
    "nc localhost 7700",
    "curl localhost:7700",
    "curl localhost:7700/",
    "curl -X POST localhost:7700/%61pprovals/1",
    "curl -X POST localhost:7700/x/../approvals/1",
    "curl -X POST 'localhost:7700/{approvals,x}/1'",
    "curl -X POST localhost:7700/$WHAT",
    "curl localhost:7700/indexes localhost:7700/approvals/1",
    "curl --request-target /approvals/1 localhost:7700/indexes",
    "sh -c 'curl -X POST localhost:7700/hooks/x'",
    "wget http://[::1]:7700/status",
    f"rm -rf {STATE}",
    f"rm -rf {STATE}/journal.db",
    "rm -rf ~/.local/state/callosum",
    "rm -rf /home/u/.local",
    f"echo x > {STATE}/secret",
    f"sqlite3 {STATE}/callosum.db vacuum",
    f"cp /tmp/x {STATE}/callosum.db",
    "sed -i s/4/0/ /srv/rules/mine.json",
    "echo '{}' > ~/.claude/settings.json",
    "cd ~/.claude && echo '{}' > settings.json",
    "tee .claude/settings.local.json < /tmp/x",
    "mv /tmp/x /home/u/.codex/config.toml",
    "truncate -s0 $HOME/.gemini/settings.json",
    "vi openclaw.json",
    "echo mode=observe > callosum.toml",
    "python3 -c \"open('/home/u/.claude/settings.json','w')\"",
    "x" * 70_000 + "; callosum off",
    "bash <<E\ncallosum off\nE",
    "ssh localhost <<E\ncallosum off\nE",
    "bash <<< 'callosum off'",
    "cat <<E | sh\ncallosum off\nE",
    "cat <<E\n$(callosum approve 1)\nE",
    "cat > x.sh <<E\ncallosum off\nE\nsh ./x.sh",
    "tee /tmp/x.sh <<'E' && chmod +x /tmp/x.sh && /tmp/x.sh\ncallosum off\nE",
    "python3 - <<E\nopen('/home/u/.claude/settings.json', 'w')\nE",
    f"cat > {STATE}/x <<E\nhello\nE",
    "cat > a <<E\nhello\nE\ncallosum off",
    "sh <<A\nsh <<B\nsh <<C\nsh <<D\nsh <<F\nsh <<G\ncallosum off\nG\nF\nD\nC\nB\nA",
    "cat <<E\ncallosum off",
    "tee >(sh) <<E\ncallosum off\nE",
    "cat <<E | tee x | sh\ncallosum off\nE",
    "{ cat <<E\ncallosum off\nE\n} | sh",
    "(cat <<E\ncallosum off\nE\n) | bash",
    "$(cat <<E\ncallosum off\nE\n)",
    "cat > x.py <<E\nopen('/home/u/.claude/settings.json', 'w')\nE\npython3 x.py",
    "while read l; do $l; done <<E\ncallosum off\nE",
]
FINE = [
    "callosum status",
    "callosum journal --tail",
    "callosum explain 'git push'",
    "callosum rules show",
    "echo 'run callosum off to stop it'",
    "grep -rn 'callosum approve' docs",
    "git commit -m 'callosum off: a note'",
    "git log --grep 'callosum stop'",
    "cat ~/.claude/settings.json",
    "ls -la ~/.claude",
    "jq .hooks .claude/settings.json",
    f"ls {STATE}",
    "cp ~/.claude/settings.json /tmp/backup.json",
    "curl https://example.com:7700/x",
    "curl localhost:8080",
    "curl -X GET http://localhost:7700/health",
    "curl -s 'http://localhost:7700/indexes/movies/search?q=callosum'",
    "curl -X POST http://127.0.0.1:7700/indexes/films/documents -d @films.json",
    "python3 -c \"import requests; requests.get('http://localhost:7700/tasks')\"",
    "python -m pytest tests/callosum",
    "python callosum_demo.py",
    "cd /src/callosum && make test",
    "sed -n 1,5p /srv/rules/mine.json",
    "vi src/settings.json",
    "cat > README.md <<'EOF'\n```\ncallosum approve 17\ncallosum stop\nrm -rf /home/u\n```\nEOF",
    "tee docs/x.md <<EOF\nrm -rf ~/.local\nEOF\ngit add docs/x.md",
    "git commit -F - <<EOF\nDocs\n\ncallosum off\nEOF",
    "git commit -m \"$(cat <<'EOF'\nDocs\n\ncallosum off\nEOF\n)\"",
    "gh pr create --title x --body-file - <<EOF\ncallosum uninstall\nEOF",
    "cat > x.sh <<E\ncallosum off\nE\ncat x.sh",
]


def run(command: str, tool: str = "Bash") -> Any:
    return RULES.classify(Call("a", tool, {"command": command}, cwd="/home/u"))


@pytest.mark.parametrize("command", COMMANDS, ids=[one[-40:] for one in COMMANDS])
def test_commands_against_the_gate(command: str) -> None:
    seen = run(command)
    assert (seen.tier, seen.verdict, seen.rule) == (4, Verdict.BLOCK, "self-guard")
    assert "guards itself" in seen.why[0]


@pytest.mark.parametrize("command", FINE)
def test_mentions_and_looks_are_fine(command: str) -> None:
    assert run(command).verdict is None


TOOLS: list[tuple[str, dict[str, Any], bool]] = [
    ("Write", {"file_path": f"{STATE}/x"}, True),
    ("write", {"path": ".claude/settings.json"}, True),
    ("Edit", {"file_path": "/home/u/.local/state/../state/callosum/x"}, True),
    ("mcp__fs__write_file", {"path": "/srv/rules/mine.json", "content": ""}, True),
    ("mcp__fs__move_file", {"source": "/tmp/x", "destination": "/home/u/.codex/hooks.json"}, True),
    ("save", {"files": [{"path": "/tmp/x"}, {"path": "/home/u/.gemini/settings.json"}]}, True),
    ("write", {"path": "/etc/callosum/tiers.json"}, True),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: .claude/settings.json\n*** End Patch"}, True),
    ("shell", {"command": ["callosum", "off"]}, True),
    ("WebFetch", {"url": "http://127.0.0.1:7700/status"}, True),
    ("http_request", {"method": "POST", "url": "http://localhost:7801/lock"}, True),
    ("WebFetch", {"url": "http://127.0.0.1:7700/indexes/films"}, False),
    ("Read", {"file_path": f"{STATE}/x"}, False),
    ("read", {"path": "/home/u/.claude/settings.json"}, False),
    ("Write", {"file_path": "/tmp/x", "content": "callosum off > ~/.claude/settings.json"}, False),
    ("message", {"action": "send", "target": "a", "message": "callosum off"}, False),
    ("Write", {"file_path": "/src/tiers.json"}, False),
    ("Write", {"file_path": "/home/u/.local/state/callosum-other"}, False),
    ("WebFetch", {"url": "https://example.com/callosum"}, False),
]


@pytest.mark.parametrize(("tool", "params", "blocked"), TOOLS)
def test_tools_against_the_gate(tool: str, params: dict[str, Any], blocked: bool) -> None:
    seen = RULES.classify(Call("a", tool, params, cwd="/home/u"))
    assert (seen.verdict is Verdict.BLOCK) is blocked


def test_every_path_of_the_server_is_known_to_the_guard() -> None:
    """Another service at the same port is told from the gate by its paths."""
    assert {one.path.split("/")[1] for one in SERVED} - ENDPOINTS == {"health"}
