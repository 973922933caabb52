"""Add the plugin's entry to ``openclaw.json``, remove it, and check it.

::

    {"plugins": {
        "load": {"paths": [".../callosum/hosts/openclaw"]},
        "entries": {"callosum": {
            "enabled": true,
            "config": {"instanceId": "mira", "mode": "local", ...},
            "hooks": {"allowConversationAccess": true, "allowPromptInjection": true}}}}}

``enabled`` is required: without it OpenClaw loads the plugin but rejects its policy, and only the policy gates
``openclaw agent exec``. Everything that is not ours stays as it is, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from callosum import launch
from callosum.errors import ConfigError
from callosum.hosts.openclaw import FOLDER, ID
from callosum.hosts.setup import InstallSite, InstallTarget
from callosum.model import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from callosum.programs.program import Program
    from callosum.settings import Settings

_TAIL: Final = "/callosum/hosts/openclaw"
"""End of the path of every folder of the plugin, whichever installation of Callosum it belongs to."""
_HOOKS: Final = {"allowConversationAccess": True, "allowPromptInjection": True}


class OpenClawOptions(Struct, frozen=True, kw_only=True):
    """Hold the config of the plugin. A field that is None keeps its current value or the plugin's default.

    ``command`` starts the local gate. ``url`` and ``token`` name a server that is used instead.
    """

    instance: str | None = None
    state: Path | None = None
    command: tuple[str, ...] | None = None
    namespace: str | None = None
    url: str | None = None
    token: str | None = None
    fail_mode: str | None = None
    folder: Path = FOLDER


def settings_path(home: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of the OpenClaw settings that apply to a user."""
    if named := environ.get("OPENCLAW_CONFIG_PATH"):
        return Path(named).expanduser()
    folder = environ.get("OPENCLAW_STATE_DIR")
    return (Path(folder).expanduser() if folder else home / ".openclaw") / "openclaw.json"


def site(host: Program, settings: Settings, where: InstallTarget) -> InstallSite:
    """Return how the plugin, which asks the gate of this machine, is added to the settings."""
    if where.project is not None:
        raise ConfigError("OpenClaw has no settings of projects; leave --project away", at="--project")
    namespace = None if settings.namespace == DEFAULT_NAMESPACE else settings.namespace
    options = OpenClawOptions(
        instance=settings.instance, state=settings.state, command=tuple(launch.command()), namespace=namespace
    )
    path = where.file or settings_path(where.home, where.environ)
    return InstallSite(path, partial(installed, options=options), removed, lambda _: host.then)


def installed(settings: Mapping[str, Any], options: OpenClawOptions) -> dict[str, Any]:
    """Return the settings with the plugin. Fields of its entry that ``options`` leaves out keep their values.

    ``source``, which current versions of OpenClaw reject, is removed.

    Raises: ``ConfigError`` that names the place with an unexpected shape or with a setting that keeps the plugin from
    loading.
    """
    plugins = dict(_object(settings, "plugins"))
    if plugins.get("enabled") is False:
        raise ConfigError("plugins are switched off in OpenClaw: nothing would be gated", at="plugins.enabled")
    if ID in _list(plugins, "deny", "plugins"):
        raise ConfigError("the plugin is denied in OpenClaw: nothing would be gated", at="plugins.deny")
    load = dict(_object(plugins, "load", "plugins"))
    others = [path for path in _list(load, "paths", "plugins.load") if not _is_ours(path)]
    entries = dict(_object(plugins, "entries", "plugins"))
    entry = {name: value for name, value in _object(entries, ID, "plugins.entries").items() if name != "source"}
    config = {**_object(entry, "config", f"plugins.entries.{ID}"), **_config(options)}
    if options.url is not None:
        config = {name: value for name, value in config.items() if name not in ("state", "command")}
    elif config.get("mode") == "local":
        config = {name: value for name, value in config.items() if name not in ("url", "token")}
    hooks = {**_object(entry, "hooks", f"plugins.entries.{ID}"), **_HOOKS}
    plugins["load"] = {**load, "paths": [*others, str(options.folder)]}
    plugins["entries"] = {**entries, ID: {**entry, "enabled": True, "config": config, "hooks": hooks}}
    if "allow" in plugins:
        allowed = _list(plugins, "allow", "plugins")
        plugins["allow"] = allowed if ID in allowed else [*allowed, ID]
    return {**settings, "plugins": plugins}


def removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the plugin and what it leaves empty. Raises ``ConfigError`` as ``installed``."""
    if "plugins" not in settings:
        return dict(settings)
    plugins = dict(_object(settings, "plugins"))
    before = dict(plugins)
    load = dict(_object(plugins, "load", "plugins"))
    paths = _list(load, "paths", "plugins.load")
    _put(load, "paths", [path for path in paths if not _is_ours(path)], paths)
    _put(plugins, "load", load, before.get("load"))
    entries = _object(plugins, "entries", "plugins")
    _put(plugins, "entries", {name: entry for name, entry in entries.items() if name != ID}, entries)
    if "allow" in plugins:
        # An empty list allows no plugin, so it stays.
        plugins["allow"] = [name for name in _list(plugins, "allow", "plugins") if name != ID]
    changed = dict(settings)
    _put(changed, "plugins", plugins, before)
    return changed


def faults(settings: Mapping[str, Any], folder: Path = FOLDER) -> list[str]:
    """Return one sentence for each fault that keeps the plugin from gating."""
    try:
        wanted = installed(settings, OpenClawOptions(folder=folder))
        entry = _object(_object(_object(settings, "plugins"), "entries", "plugins"), ID, "plugins.entries")
        paths = _list(_object(_object(settings, "plugins"), "load", "plugins"), "paths", "plugins.load")
    except ConfigError as error:
        return [str(error)]
    sentences = []
    if not entry:
        sentences.append(f"plugins.entries.{ID} is not there")
    elif entry.get("enabled") is not True:
        sentences.append(f"plugins.entries.{ID}.enabled is not true")
    if entry and "source" in entry:
        sentences.append(f"plugins.entries.{ID}.source is not known to this OpenClaw")
    if str(folder) not in paths:
        sentences.append(f"plugins.load.paths does not name {folder}")
    hooks = _object(entry, "hooks", f"plugins.entries.{ID}")
    sentences += [f"plugins.entries.{ID}.hooks.{name} is not true" for name in _HOOKS if hooks.get(name) is not True]
    if "allow" in wanted["plugins"] and ID not in settings["plugins"]["allow"]:
        sentences.append(f"plugins.allow does not name {ID}")
    return sentences


def _config(options: OpenClawOptions) -> dict[str, Any]:
    given = {
        "instanceId": options.instance,
        "mode": "remote" if options.url is not None else "local" if options.state is not None else None,
        "url": options.url,
        "token": options.token,
        "state": None if options.state is None else str(options.state),
        "command": None if options.command is None else [*options.command],
        "namespace": options.namespace,
        "failMode": options.fail_mode,
    }
    return {name: value for name, value in given.items() if value is not None}


def _is_ours(path: object) -> bool:
    return isinstance(path, str) and path.rstrip("/").endswith(_TAIL)


def _put(parent: dict[str, Any], name: str, value: Any, before: Any) -> None:
    """Set a value that is not empty or was empty before. Remove a value that becomes empty by our removal."""
    if value or before == value:
        if value or name in parent:
            parent[name] = value
    else:
        parent.pop(name, None)


def _object(parent: Mapping[str, Any], name: str, above: str = "") -> Mapping[str, Any]:
    value = parent.get(name, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"expected an object, got {type(value).__name__}", at=f"{above}.{name}".lstrip("."))
    return value


def _list(parent: Mapping[str, Any], name: str, above: str) -> list[Any]:
    value = parent.get(name, [])
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigError(f"expected a list, got {type(value).__name__}", at=f"{above}.{name}")
    return [*value]
