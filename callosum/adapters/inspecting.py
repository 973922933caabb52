"""Find the agents of a program that the gate does not see, by reading its source. Nothing of it is run or imported.

``inspect`` follows a program's imports to the files beside it. It returns a ``Spot`` for each agent of a supported
framework and for each bypass. An agent counts as gated if one of its arguments comes from the framework's adapter, if
it is passed to that adapter, or if the program calls ``install``. Agents that a program builds through other names (its
own classes, factories of other packages) are not found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from callosum.adapters.installing import SEAMS
from callosum.errors import ConfigError

OURS: Final = "callosum.adapters"
AGENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_framework": ("agent_framework.Agent", "agent_framework.ChatAgent"),
    "agno": ("agno.agent.Agent", "agno.team.Team"),
    "claude_agent_sdk": ("claude_agent_sdk.ClaudeAgentOptions",),
    "crewai": ("crewai.Crew", "crewai.crew.Crew"),
    "google_adk": (
        "google.adk.apps.App",
        "google.adk.apps.app.App",
        "google.adk.runners.InMemoryRunner",
        "google.adk.runners.Runner",
    ),
    "langchain": (
        "langchain.agents.create_agent",
        "langgraph.prebuilt.ToolNode",
        "langgraph.prebuilt.create_react_agent",
        "langgraph.prebuilt.tool_node.ToolNode",
    ),
    "llama_index": tuple(
        f"llama_index.core.agent{part}.{kind}"
        for part in ("", ".workflow")
        for kind in ("AgentWorkflow", "CodeActAgent", "FunctionAgent", "ReActAgent")
    ),
    "openai_agents": ("agents.Agent", "agents.agent.Agent", "agents.SandboxAgent"),
    "pydantic_ai": ("pydantic_ai.Agent", "pydantic_ai.agent.Agent"),
    "smolagents": ("smolagents.CodeAgent", "smolagents.ToolCallingAgent"),
    "strands": ("strands.Agent", "strands.agent.Agent"),
}
"""What builds an agent, or what runs its tools, by the adapter that gates it."""
PER_CALL: Final = frozenset({"agno", "crewai", "llama_index", "openai_agents", "smolagents"})
"""Adapters whose ``install`` also gates agents that were built before it."""
HOSTED: Final = frozenset(
    {
        *(
            f"agents.{kind}"
            for kind in (
                "CodeInterpreterTool",
                "ComputerTool",
                "FileSearchTool",
                "HostedMCPTool",
                "ImageGenerationTool",
            )
        ),
        "agents.WebSearchTool",
        *(
            f"google.adk.tools.{kind}"
            for kind in ("VertexAiSearchTool", "enterprise_web_search", "google_search", "url_context")
        ),
        *(
            f"pydantic_ai{part}.{kind}"
            for part in ("", ".builtin_tools", ".native_tools")
            for kind in ("CodeExecutionTool", "ImageGenerationTool", "MCPServerTool", "WebFetchTool", "WebSearchTool")
        ),
    }
)
"""Tools that run at the provider of the model."""
CODE: Final = frozenset(
    {
        "crewai_tools.CodeInterpreterTool",
        "google.adk.code_executors.BuiltInCodeExecutor",
        "google.adk.code_executors.UnsafeLocalCodeExecutor",
        "llama_index.core.agent.workflow.CodeActAgent",
        "smolagents.CodeAgent",
        "smolagents.PythonInterpreterTool",
    }
)
"""What runs code that the model writes."""
TOOLS: Final = frozenset(
    {
        "agents.function_tool",
        "crewai.tools.tool",
        "langchain.tools.tool",
        "langchain_core.tools.StructuredTool.from_function",
        "langchain_core.tools.tool",
        "llama_index.core.tools.FunctionTool.from_defaults",
        "smolagents.tool",
    }
)
"""What makes a tool of a function."""
DIRECT: Final = frozenset({"acall", "ainvoke", "arun", "call", "forward", "invoke", "on_invoke_tool", "run"})
"""Methods of tools that run them without the agent."""
_INSTALLED: Final = frozenset({"site-packages", "node_modules", "__pycache__"})
LARGEST: Final = 2_000
"""Maximum number of a program's files that are read."""

Sort = Literal["agent", "hosted", "direct", "code", "unread"]


class Spot(Struct, frozen=True):
    """A place in a program: ``what`` it is, ``gated`` if the gate sees its calls, and ``why``."""

    file: str
    line: int
    sort: Sort
    what: str
    gated: bool
    why: str


class _File:
    """One parsed file: what its names refer to and what values they hold."""

    def __init__(self, path: Path, tree: ast.Module, program: dict[str, list[_File]]) -> None:
        self.path, self.tree, self.program = path, tree, program
        module = path.parent.name if path.name == "__init__.py" else path.stem
        program.setdefault(module, []).append(self)
        self.names: dict[str, str] = {}
        self.holds: dict[str, list[ast.expr]] = {}
        self.tools: set[str] = set()
        self.top = {id(inner) for statement in tree.body if not _defines(statement) for inner in ast.walk(statement)}
        for node in ast.walk(tree):
            self._learn(node)
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                name = one.asname or one.name.partition(".")[0]
                self.names[name] = one.name if one.asname else name
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                self.names[one.asname or one.name] = f"{'.' * node.level}{node.module or ''}.{one.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if (held := _dotted(target)) is not None:
                    self.holds.setdefault(held, []).append(node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
            if any(self.means(one) in TOOLS for one in made):
                self.tools.add(node.name)
            returned = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
            self.holds.setdefault(node.name, []).extend(returned)

    def means(self, node: ast.expr) -> str:
        """Return the dotted name of an expression by the file's imports, "" if it is not a name."""
        dotted = _dotted(node)
        if dotted is None:
            return ""
        first, dot, rest = dotted.partition(".")
        return f"{self.names.get(first, first)}{dot}{rest}"

    def held(self, node: ast.expr) -> Iterator[tuple[_File, ast.expr]]:
        """Return the values that a name may hold.

        They are those assigned to it or returned by it, in this file or where it is imported from.
        """
        dotted = _dotted(node)
        if dotted is None:
            return
        yield from ((self, one) for one in self.holds.get(dotted, ()))
        module, _, name = self.means(node).rpartition(".")
        for other in self.program.get(module.rpartition(".")[2], ()):
            if other is not self:
                yield from ((other, one) for one in other.holds.get(name, ()))

    def refers(self, node: ast.AST, prefix: str, met: set[int] | None = None) -> bool:
        """Return True if an expression, or a value of its variables, uses a name with this prefix."""
        met = set() if met is None else met
        if id(node) in met:
            return False
        met.add(id(node))
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Name | ast.Attribute):
                continue
            if self.means(inner).startswith(prefix):
                return True
            if any(where.refers(one, prefix, met) for where, one in self.held(inner)):
                return True
        return False


def inspect(program: str, folder: Path) -> list[Spot]:
    """Return the agents and bypasses of a program: a file, or a module in ``folder`` or on Python's path.

    A file that cannot be parsed is a ``Spot`` too.

    Raises:
        ConfigError: There is no such file or module.
    """
    first, root = _found(program, folder)
    spots: list[Spot] = []
    files: list[_File] = []
    program_files: dict[str, list[_File]] = {}
    waiting, met = list(first), set(first)
    read = 0
    while waiting and read < LARGEST:
        path = waiting.pop(0)
        read += 1
        shown = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        try:
            with warnings.catch_warnings(action="ignore"):
                file = _File(path, ast.parse(path.read_bytes(), shown), program_files)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
            line = getattr(error, "lineno", None) or 1
            why = getattr(error, "msg", None) or str(error) or type(error).__name__
            spots.append(Spot(shown, line, "unread", "this file", gated=False, why=f"it cannot be read: {why}"))
            continue
        files.append(file)
        more = [one for one in _imported(file, root) if one not in met]
        met.update(more)
        waiting += more
    if waiting:
        why = f"{len(waiting):,} more files are not read: name a part of the program"
        spots.append(Spot(program, 1, "unread", "this program", gated=False, why=why))
    installed = _installed(files)
    for file in files:
        shown = str(file.path.relative_to(root)) if file.path.is_relative_to(root) else str(file.path)
        spots += sorted(_spots(file, shown, installed), key=lambda spot: spot.line)
    return spots


# --- Files ----------------------------------------------------------------------------------------------


def _found(program: str, folder: Path) -> tuple[list[Path], Path]:
    """Return the files of a program, and the folder whose modules belong to it."""
    path = folder / program
    if path.is_dir():
        return _sources(path), path.parent
    if path.is_file():
        outside = path.parent
        while (outside / "__init__.py").is_file() and outside != outside.parent:
            outside = outside.parent
        return [path], outside
    where: Sequence[str] | None = None
    name = ""
    spec: ModuleSpec | None = None
    for part in program.split("."):
        name = f"{name}.{part}".lstrip(".")
        # find a module by its files, because `importlib.util.find_spec` would run the packages around it
        spec = PathFinder.find_spec(name, [str(folder), *_path()] if where is None else where) if part else None
        if spec is None:
            raise ConfigError(
                f"{program}: there is no such file or module; expected a file or a module's name", at="python"
            )
        where = spec.submodule_search_locations or []
    if where:
        return [found for one in where for found in _sources(Path(one))], Path(where[0]).parent
    if spec is None or not (spec.origin or "").endswith(".py"):
        raise ConfigError(f"{program}: this module has no Python source that could be read", at="python")
    own = Path(str(spec.origin))
    return [own], own.parents[program.count(".")]


def _sources(folder: Path) -> list[Path]:
    """Return the Python files below a folder, without hidden folders and those of installed packages."""
    return sorted(
        found
        for found in folder.rglob("*.py")
        if not any(part.startswith(".") or part in _INSTALLED for part in found.relative_to(folder).parts)
    )


def _path() -> list[str]:
    import sys  # noqa: PLC0415 - its path as it is when it is asked for

    return sys.path


def _imported(file: _File, root: Path) -> Iterator[Path]:
    """Return the program's own files that a file imports."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
            base = root
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" if node.module else one.name for one in node.names]
            names += [node.module] if node.module else []
            base = file.path.parents[node.level - 1] if 0 < node.level <= len(file.path.parents) else root
        else:
            continue
        for name in names:
            for start in {base, file.path.parent}:
                place = start.joinpath(*name.split("."))
                yield from (one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file())


# --- Findings ----------------------------------------------------------------------------------------------


def _installed(files: Sequence[_File]) -> dict[str, list[tuple[_File, ast.Call]]]:
    """Return the calls of ``install`` by adapter; those for all frameworks are under ""."""
    found: dict[str, list[tuple[_File, ast.Call]]] = {}
    for file in files:
        for call in file.calls:
            name = file.means(call.func)
            if name in (f"{OURS}.install", f"{OURS}.installing.install"):
                found.setdefault("", []).append((file, call))
            elif name.startswith(f"{OURS}.") and name.endswith(".install"):
                found.setdefault(name.split(".")[2], []).append((file, call))
    return found


def _spots(file: _File, shown: str, installed: Mapping[str, list[tuple[_File, ast.Call]]]) -> Iterator[Spot]:
    builders = {name: adapter for adapter, names in AGENTS.items() for name in names}
    for call in file.calls:
        name = file.means(call.func)
        if name in builders:
            gated, why = _gated(file, call, builders[name], installed)
            yield Spot(shown, call.lineno, "agent", f"{name}{_tools(call)}", gated, why)
        if name in CODE or any(word.arg == "allow_code_execution" and _is_true(word.value) for word in call.keywords):
            why = "the gate sees the tools that such code calls, not what else the code does"
            yield Spot(shown, call.lineno, "code", f"{name} runs code that the model writes", gated=False, why=why)
        if isinstance(call.func, ast.Attribute) and call.func.attr in DIRECT and _is_tool(file, call.func.value):
            what = f"{ast.unparse(call.func)}() runs a tool past the agent"
            yield Spot(shown, call.lineno, "direct", what, gated=False, why="adapters see the agent's calls alone")
        yield from _provider_tools(file, shown, call)
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Name | ast.Attribute) and file.means(node) in HOSTED and _is_used(node):
            why = "no adapter sees what runs at the provider"
            yield Spot(shown, node.lineno, "hosted", f"{file.means(node)} runs at the provider", gated=False, why=why)


def _gated(
    file: _File, call: ast.Call, adapter: str, installed: Mapping[str, list[tuple[_File, ast.Call]]]
) -> tuple[bool, str]:
    prefix = f"{OURS}.{adapter}."
    if any(file.refers(one, prefix) for one in (*call.args, *(word.value for word in call.keywords))):
        return True, "it is built with the adapter"
    names = {name for name, held in file.holds.items() if any(call is one for one in held)}
    for other in file.calls:
        given = [*other.args, *(word.value for word in other.keywords)]
        if file.means(other.func).startswith(prefix) and any(_has(one, call, names) for one in given):
            return True, "it is handed to the adapter"
    late = ""
    for where, made in (*installed.get(adapter, ()), *(installed.get("", ()) if adapter in SEAMS else ())):
        before = where is file and {id(call), id(made)} <= file.top and call.lineno < made.lineno
        if before and adapter not in PER_CALL:
            late = f"install() comes after it, in line {made.lineno}"
            continue
        return True, f"{where.path.name}:{made.lineno} calls install()"
    return False, late or f"nothing from {OURS}.{adapter} is around it"


def _has(node: ast.AST, call: ast.Call, names: set[str]) -> bool:
    return any(
        inner is call or (isinstance(inner, ast.Name | ast.Attribute) and _dotted(inner) in names)
        for inner in ast.walk(node)
    )


def _tools(call: ast.Call) -> str:
    """Return the tools by name, if the call lists them itself."""
    given = next((word.value for word in call.keywords if word.arg == "tools"), None)
    if not isinstance(given, ast.List | ast.Tuple):
        return ""
    names = [dotted for one in given.elts if (dotted := _dotted(one.func if isinstance(one, ast.Call) else one))]
    return f" with {', '.join(names)}" if names else ""


def _provider_tools(file: _File, shown: str, call: ast.Call) -> Iterator[Spot]:
    """Return tools that are given as dicts: LangChain passes them to the model's provider."""
    given = next((word.value for word in call.keywords if word.arg == "tools"), None)
    if file.means(call.func) not in AGENTS["langchain"] or not isinstance(given, ast.List | ast.Tuple):
        return
    for one in given.elts:
        if isinstance(one, ast.Dict):
            why = "no adapter sees what runs at the provider"
            yield Spot(shown, one.lineno, "hosted", "a tool given as a dict runs at the provider", gated=False, why=why)


def _is_tool(file: _File, node: ast.expr) -> bool:
    name = _dotted(node)
    if name is None:
        return isinstance(node, ast.Call) and file.means(node.func) in TOOLS
    held = file.holds.get(name, ())
    return name in file.tools or any(isinstance(one, ast.Call) and file.means(one.func) in TOOLS for one in held)


def _is_used(node: ast.expr) -> bool:
    return isinstance(node.ctx, ast.Load) if isinstance(node, ast.Name | ast.Attribute) else False


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _defines(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _dotted(node: ast.AST) -> str | None:
    """Return a chain of attributes as it is written; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
