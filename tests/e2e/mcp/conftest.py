"""Install seven real MCP servers once, beside the tests: four from npm and three from PyPI."""

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parent / ".hosts" / "mcp"


class RealServer(NamedTuple):
    """Describe a server: its command, its test calls, and the call on which two sessions conflict."""

    name: str
    command: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, Any]], ...]
    shared: tuple[str, dict[str, Any]]
    environ: dict[str, str]


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return the folder with the servers. Without npm these tests report that they did not run."""
    wanted = (HERE / "package.json").read_text() + (HERE / "requirements.txt").read_text() + sys.version
    stamp = CACHE / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return CACHE
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("the real servers of MCP are NOT tested: there is no npm to install them with")
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", CACHE)
    quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]
    subprocess.run([npm, "install", *quiet], cwd=CACHE, check=True, timeout=900)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(CACHE / "venv")], check=True, timeout=300)
    pip = [str(CACHE / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True, timeout=900)
    stamp.write_text(wanted)
    return CACHE


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body><h1>Opening hours</h1><p>Daily from nine to five.</p></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def page() -> Iterator[str]:
    """Serve a page on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hours"
        server.shutdown()
        thread.join()


@pytest.fixture
def real(installed: Path, page: str, tmp_path: Path) -> Callable[[str], RealServer]:
    """Return a server by its name, with its own folder in ``tmp_path``."""
    node, python = installed / "node_modules/.bin", installed / "venv/bin"
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("the first line\nthe second line\n")
    here = str(folder)

    def filesystem() -> RealServer:
        calls: tuple[Any, ...] = (
            ("list_directory", {"path": here}),
            ("read_text_file", {"path": f"{here}/a.txt"}),
            ("read_text_file", {"path": f"{here}/none.txt"}),
            ("edit_file", {"path": f"{here}/a.txt", "edits": [{"oldText": "first", "newText": "1st"}], "dryRun": True}),
        )
        shared = ("write_file", {"path": f"{here}/b.txt", "content": "both write it"})
        return RealServer("filesystem", (str(node / "mcp-server-filesystem"), here), calls, shared, {})

    def memory() -> RealServer:
        entity = {"name": "acme", "entityType": "company", "observations": ["pays late"]}
        calls: tuple[Any, ...] = (
            ("search_nodes", {"query": "nobody"}),
            ("delete_entities", {"entityNames": ["nobody"]}),
            ("read_graph", {}),
        )
        environ = {"MEMORY_FILE_PATH": f"{here}/memory.jsonl"}
        shared = ("create_entities", {"entities": [entity]})
        return RealServer("memory", (str(node / "mcp-server-memory"),), calls, shared, environ)

    def everything() -> RealServer:
        calls: tuple[Any, ...] = (
            ("echo", {"message": 'grüße "\u2028" 😀'}),
            ("get-sum", {"a": 2, "b": 3.5}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-tiny-image", {}),
            ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
            ("get-sum", {"a": "no number"}),
            ("no_such_tool", {}),
        )
        return RealServer(
            "everything", (str(node / "mcp-server-everything"),), calls, ("echo", {"message": "hello"}), {}
        )

    def thinking() -> RealServer:
        thought = {"thought": "think", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": True}
        command = (str(node / "mcp-server-sequential-thinking"),)
        quiet = {"DISABLE_THOUGHT_LOGGING": "true"}
        return RealServer(
            "thinking", command, (("sequentialthinking", thought),), ("sequentialthinking", thought), quiet
        )

    def git() -> RealServer:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
        fixed = {**os.environ, "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run(["git", *who, *words], cwd=folder, env=fixed, check=True)
        (folder / "a.txt").write_text("changed\n")
        calls = tuple((f"git_{name}", {"repo_path": here}) for name in ("status", "diff_unstaged", "log"))
        shared = ("git_create_branch", {"repo_path": here, "branch_name": "next"})
        return RealServer("git", (str(python / "mcp-server-git"), "--repository", here), calls, shared, {})

    def fetch() -> RealServer:
        calls: tuple[Any, ...] = (("fetch", {"url": page}), ("fetch", {"url": page, "raw": True, "max_length": 20}))
        command = (str(python / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips")
        return RealServer("fetch", command, calls, ("fetch", {"url": page}), {})

    def time() -> RealServer:
        wanted = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}
        calls: tuple[Any, ...] = (("convert_time", wanted), ("convert_time", {**wanted, "time": "nonsense"}))
        command = (str(python / "mcp-server-time"), "--local-timezone", "UTC")
        return RealServer("time", command, calls, ("convert_time", wanted), {})

    made = {
        "filesystem": filesystem, "memory": memory, "everything": everything, "thinking": thinking, "git": git,
        "fetch": fetch, "time": time,
    }  # fmt: skip
    return lambda name: made[name]()
