"""Options come before the environment, ``callosum.toml`` and defaults; errors name their source."""

import os
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import callosum.regions
from callosum import settings
from callosum.errors import ConfigError
from callosum.rules.shell import ShellPolicy
from callosum.settings import Settings, handed_on, load


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Run in an environment without settings, isolated from those of this machine."""
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "deep" / "inside"
    folder.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    return folder


def write(folder: Path, text: str, name: str = "callosum.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_settings_have_their_defaults(home: dict[str, str], cwd: Path, tmp_path: Path) -> None:
    assert load(environ=home, cwd=cwd) == Settings(state=tmp_path / "state" / "callosum")


@pytest.mark.skipif(os.name != "posix", reason="XDG")
def test_the_state_is_in_the_platforms_folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    state = load(environ={}, cwd=cwd).state
    assert state.name == "callosum"
    assert Path("/somewhere") in state.parents


def test_first_source_that_has_a_setting_wins(home: dict[str, str], cwd: Path) -> None:
    write(cwd, 'namespace = "file"\ninstance = "file"\nmode = "observe"\n[lease]\nttl = 10\n')
    home |= {"CALLOSUM_NAMESPACE": "environment", "CALLOSUM_INSTANCE": "environment"}
    found = load({"namespace": "flag", "instance": None}, home, cwd)
    assert (found.namespace, found.instance, found.mode) == ("flag", "environment", "observe")
    assert (found.lease_ttl, found.journal_params) == (10, "summary")
    assert found.config == cwd / "callosum.toml"


def test_an_empty_variable_is_not_set(home: dict[str, str], cwd: Path) -> None:
    assert load(environ=home | {"CALLOSUM_NAMESPACE": ""}, cwd=cwd).namespace == "default"


def test_nearest_file_up_to_the_root_of_the_repository_is_used(home: dict[str, str], cwd: Path, tmp_path: Path) -> None:
    write(tmp_path, 'namespace = "outside"')
    write(tmp_path / "config" / "callosum", 'namespace = "platform"')
    assert load(environ=home, cwd=cwd).namespace == "platform"
    write(tmp_path / "repository", 'namespace = "root"')
    assert load(environ=home, cwd=cwd).namespace == "root"
    write(cwd.parent, 'namespace = "near"')
    assert load(environ=home, cwd=cwd).namespace == "near"
    other = write(tmp_path, 'namespace = "named"', "other.toml")
    assert load(environ=home | {"CALLOSUM_CONFIG": str(other)}, cwd=cwd).namespace == "named"
    assert load({"config": "callosum.toml"}, home | {"CALLOSUM_CONFIG": str(other)}, cwd.parent).namespace == "near"


def test_outside_a_repository_only_the_file_of_the_folder_itself_is_used(home: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "a", 'namespace = "above"')
    (tmp_path / "a" / "b").mkdir()
    assert load(environ=home, cwd=tmp_path / "a" / "b").namespace == "default"
    assert load(environ=home, cwd=tmp_path / "a").namespace == "above"


def test_relative_paths_start_at_the_file_that_has_them(
    home: dict[str, str], cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/mira")
    write(cwd.parent, 'state = "s"\nrules = "~/tiers.json"')
    found = load(environ=home, cwd=cwd)
    assert (found.state, found.rules) == (cwd.parent / "s", Path("/home/mira/tiers.json"))
    assert load(environ=home | {"CALLOSUM_STATE": "s"}, cwd=cwd).state == cwd / "s"
    assert load({"state": Path("/abs")}, home, cwd).state == Path("/abs")


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("LEASE_TTL", "90", 90.0),
        ("LEASE_TTL", "1.5", 1.5),
        ("LEASE_TTL", "5m", 300.0),
        ("LEASE_TTL", "2 H", 7200.0),
        ("JOURNAL_AGE", "30d", 30 * 86400.0),
        ("JOURNAL_SIZE", "64MB", 64_000_000),
        ("JOURNAL_SIZE", "1GiB", 2**30),
        ("JOURNAL_SIZE", "5000000", 5_000_000),
        ("JOURNAL_PARAMS", "none", "none"),
        ("MODE", "observe", "observe"),
        ("NOTIFY", "notify-send 'Callosum asks'", ("notify-send", "Callosum asks")),
    ],
)
def test_environment_values_are_read(home: dict[str, str], cwd: Path, variable: str, text: str, value: Any) -> None:
    found = load(environ=home | {f"CALLOSUM_{variable}": text}, cwd=cwd)
    assert getattr(found, variable.lower()) == value


def test_file_values_are_read(home: dict[str, str], cwd: Path) -> None:
    write(
        cwd,
        """
        notify = ["a", "b c"]
        [lease]
        ttl = "5m"
        [journal]
        params = "full"
        age = 86400
        size = "2MB"
        """,
    )
    found = load({"config": cwd / "callosum.toml"}, home, cwd)
    assert found.notify == ("a", "b c")
    assert (found.lease_ttl, found.journal_params, found.journal_age, found.journal_size) == (
        300,
        "full",
        86400,
        2_000_000,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lease]\nttl = 'soon'", "callosum.toml: lease.ttl: expected a number of seconds from 1 to 86400"),
        ("[lease]\nttl = 0", "callosum.toml: lease.ttl: expected a number of seconds"),
        ("[lease]\nttl = true", "callosum.toml: lease.ttl: expected a number of seconds"),
        ("[lease]\nttl = nan", "callosum.toml: lease.ttl: expected a number of seconds"),
        ("[lease]\nttl = '9e9'", "callosum.toml: lease.ttl: expected a number of seconds"),
        ("[lease]\ntl = 3", "callosum.toml: lease.tl: there is no such setting, did you mean lease.ttl?"),
        ("lease = 3", "callosum.toml: lease: expected a table"),
        ("lease_ttl = 3", "callosum.toml: lease_ttl: there is no such setting, did you mean lease.ttl?"),
        ("namespase = 'x'", "callosum.toml: namespase: there is no such setting, did you mean namespace?"),
        ("zzz = 1", "callosum.toml: zzz: there is no such setting"),
        ("mode = 'off'", 'callosum.toml: mode: expected "enforce" or "observe", not \'off\''),
        ("mode = ['observe']", "callosum.toml: mode: expected"),
        ("state = 3", "callosum.toml: state: expected a path, not 3"),
        ("state = ''", "callosum.toml: state: expected a path"),
        ('state = "a\\u0000b"', "callosum.toml: state: expected a path"),
        ("namespace = ''", "callosum.toml: namespace: expected a name"),
        ('instance = "a\\nb"', "callosum.toml: instance: expected a name"),
        ('notify = "a \'b"', "callosum.toml: notify: expected a command"),
        ("notify = [1]", "callosum.toml: notify: expected a command"),
        ("notify = 3", "callosum.toml: notify: expected a command"),
        ("[journal]\nsize = 10", "callosum.toml: journal.size: expected a number of bytes, at least 1000000"),
        ("[journal]\nsize = '10XB'", "callosum.toml: journal.size: expected a number of bytes"),
        ("[journal]\nparams = 'some'", 'callosum.toml: journal.params: expected "summary" or "full" or "none"'),
        ('[corpus]\nlog = "perhaps"', "callosum.toml: corpus.log: expected true or false, not 'perhaps'"),
        ('[regions]\noff = ["cortex"]', "callosum.toml: regions.off: expected names of regions (execution, safety,"),
        ("[brief]\nbudget = -1", "callosum.toml: brief.budget: expected a number of tokens from 0 to 100000, not -1"),
        ("[health]\nmemory = 90", "callosum.toml: health.memory: expected a part from 0 to 1, not 90"),
        ("[shell]\ninside = 0", "callosum.toml: shell.inside: expected a tier from 1 (low) to 4 (critical), not 0"),
        ("[shell]\nwhole = 5", "callosum.toml: shell.whole: expected a tier from 1 (low) to 4 (critical), not 5"),
        ("[shell]\npush = true", "callosum.toml: shell.push: expected a tier from 1 (low) to 4 (critical), not True"),
        ("[shell]\npush = 2.5", "callosum.toml: shell.push: expected a tier from 1"),
        ("[shell]\npsh = 2", "callosum.toml: shell.psh: there is no such setting, did you mean shell.push?"),
        ("shell = 2", "callosum.toml: shell: expected a table"),
        ('[shell]\nprotected = ["*"]', "callosum.toml: shell.protected: expected names of branches, or beginnings"),
        ('[shell]\nprotected = ["a*b"]', "callosum.toml: shell.protected: expected names of branches"),
        ("[shell]\nfolders = 3", "callosum.toml: shell.folders: expected a list of folders"),
        ('[shell]\nfolders = ["/"]', "callosum.toml: shell.folders: expected folders below the root"),
        ('[shell]\nfolders = ["~"]', "callosum.toml: shell.folders: expected folders below the root and below home"),
        ('[keys]\nfold_plus_tags = "x"', "callosum.toml: keys.fold_plus_tags: expected true or false, not 'x'"),
        ("[telemetry]\nopen = true", "callosum.toml: telemetry.open: there is no such setting"),
        ("state = ", "callosum.toml: Invalid value (at "),
    ],
)
def test_error_in_the_file_names_its_path(home: dict[str, str], cwd: Path, text: str, message: str) -> None:
    write(cwd, text)
    with pytest.raises(ConfigError) as caught:
        load(environ=home, cwd=cwd)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "environ", "message"),
    [
        ({}, {"CALLOSUM_LEASE_TTL": "soon"}, "CALLOSUM_LEASE_TTL: expected a number of seconds"),
        ({"lease_ttl": "soon"}, {}, "--lease-ttl: expected a number of seconds"),
        ({"lease_ttl": 1e9}, {}, "--lease-ttl: expected a number of seconds"),
        ({"mood": "x"}, {}, "--mood: there is no such setting, did you mean mode?"),
        ({"server_port": 99999}, {}, "--port: expected a port from 0 to 65535, not 99999"),
        ({"server_hosts": 5}, {}, "--allow-host: expected a list of names"),
        ({"config": "absent.toml"}, {}, "absent.toml: there is no such file"),
        ({}, {"CALLOSUM_CONFIG": "absent.toml"}, "absent.toml: there is no such file"),
        ({"instance": "x" * 300}, {}, "--instance: expected a name of at most 256 characters, not 'xxx"),
        ({"state": "~nobody-of-this-name/x"}, {}, "--state: expected a path that starts with a home folder"),
    ],
)
def test_error_in_another_source_names_its_setting(
    home: dict[str, str], cwd: Path, flags: dict[str, Any], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(flags, home | environ, cwd)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = 'b", b"= 1", b"a = " + b"[" * 10_000])
def test_malformed_toml_is_refused(home: dict[str, str], cwd: Path, content: bytes) -> None:
    (cwd / "callosum.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"callosum\.toml: "):
        load(environ=home, cwd=cwd)


def test_every_setting_can_be_set_in_every_source() -> None:
    of_the_policy = {f"shell_{name}" for name in ShellPolicy.__struct_fields__}
    assert set(settings._READ) - of_the_policy == set(Settings.__struct_fields__) - {"config", "shell"}
    assert set(settings._READ) >= of_the_policy
    assert set(settings._WRITTEN.values()) == set(settings._READ)


def test_page_lists_every_setting_with_its_variable_and_default(home: dict[str, str], cwd: Path) -> None:
    page = Path(settings.__file__).parents[1] / "docs" / "settings.md"
    rows = re.findall(r"^\| `([a-z_.]+)` \| `([A-Z_]+)` \| (.+?) \| .+ \|$", page.read_text("utf-8"), re.MULTILINE)
    assert {written: variable for written, variable, _ in rows} == {
        written: f"CALLOSUM_{name.upper()}" for written, name in settings._WRITTEN.items()
    }
    defaults = load(environ=home, cwd=cwd)
    in_words = {"state", "rules"}
    for written, _, shown in rows:
        name = settings._WRITTEN[written]
        policy = name.removeprefix("shell_")
        default = getattr(ShellPolicy(), policy) if name != policy else getattr(defaults, name)
        if shown == "none":
            assert not default, written
        elif written not in in_words:
            value = tomllib.loads(f"it = {shown.strip('`')}")["it"]
            assert value == default or settings._READ[name](value, cwd) == default, written


def test_settings_decide_tiers_of_command_lines(home: dict[str, str], cwd: Path) -> None:
    write(
        cwd,
        """
        [shell]
        inside = 3
        force_push = "2"
        protected = ["main", "release*"]
        folders = ["build", "/data/b/"]
        [keys]
        fold_plus_tags = true
        """,
    )
    environ = home | {"CALLOSUM_SHELL_INSIDE": "2", "CALLOSUM_SHELL_TEMPORARY_FOLDERS": os.pathsep.join(("/t", "/u"))}
    found = load({"shell_push": 4}, environ, cwd)
    assert found.shell == {
        "inside": 2,
        "force_push": 2,
        "push": 4,
        "protected": ("main", "release*"),
        "folders": (str(cwd / "build"), "/data/b"),
        "temporary_folders": ("/t", "/u"),
    }
    assert ShellPolicy(**found.shell).protects("release/2")  # type: ignore[arg-type]
    assert found.keys_fold_plus_tags
    assert load(environ=home, cwd="/").shell == {}


def test_a_folder_below_home_is_known_by_both_its_spellings(
    home: dict[str, str], cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    found = load({"shell_folders": ["~/a/b"]}, home, cwd)
    assert found.shell == {"folders": (str(tmp_path / "a" / "b"), "~/a/b")}


def test_the_defaults_of_the_policy_could_be_set(home: dict[str, str], cwd: Path) -> None:
    said = {f"shell_{name}": getattr(ShellPolicy(), name) for name in ShellPolicy.__struct_fields__}
    assert ShellPolicy(**load(said, home, cwd).shell) == ShellPolicy()  # type: ignore[arg-type]


def test_regions_are_switched_and_configured_by_settings(home: dict[str, str], cwd: Path) -> None:
    write(
        cwd,
        """
        [corpus]
        log = false
        [regions]
        off = ["learning", "search"]
        [brief]
        budget = 200
        [health]
        memory = 0.5
        disk = 1
        free = "1GB"
        [telemetry]
        opentelemetry = true
        prometheus = "on"
        """,
    )
    found = load(environ=home | {"CALLOSUM_TELEMETRY_PROMETHEUS": "off", "CALLOSUM_BRIEF_BUDGET": "300"}, cwd=cwd)
    assert (found.corpus_log, found.regions_off, found.brief_budget) == (False, ("learning", "search"), 300)
    assert (found.health_memory, found.health_disk, found.health_free) == (0.5, 1.0, 10**9)
    assert (found.telemetry_opentelemetry, found.telemetry_prometheus, found.telemetry_content) == (True, False, False)


def test_every_region_can_be_switched_off() -> None:
    folder = Path(callosum.regions.__file__).parent
    there = {module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_")}
    assert set(settings.REGIONS) - {"models", "safety"} <= there  # transcripts and decisions are read elsewhere


def test_settings_passed_to_a_gate_have_absolute_paths(tmp_path: Path) -> None:
    environ = {
        "CALLOSUM_RULES": "tiers.json", "CALLOSUM_CONFIG": "sub/callosum.toml",
        "CALLOSUM_SHELL_FOLDERS": "build:/data", "CALLOSUM_STORE": "postgresql://db/agents",
        "CALLOSUM_MODE": "observe", "CALLOSUM_LEASE_TTL": "", "CALLOSUM_TOKEN": "made-up",
        "CALLOSUM_STATE": "state", "CALLOSUM_INSTANCE": "mira", "CALLOSUM_SERVER_PORT": "1",
        "CALLOSUM_NOTIFY": "notify-send", "PATH": "/bin",
    }  # fmt: skip
    assert handed_on(environ, tmp_path) == {
        "CALLOSUM_RULES": f"{tmp_path}/tiers.json",
        "CALLOSUM_CONFIG": f"{tmp_path}/sub/callosum.toml",
        "CALLOSUM_SHELL_FOLDERS": f"{tmp_path}/build:/data",
        "CALLOSUM_STORE": "postgresql://db/agents",
        "CALLOSUM_MODE": "observe",
    }


def test_command_to_run_is_read_from_no_file_of_a_project(tmp_path: Path) -> None:
    own, project = tmp_path / "config" / "callosum", tmp_path / "project"
    environ = {"XDG_CONFIG_HOME": str(own.parent)}
    for folder in (own, project):
        folder.mkdir(parents=True)
        (folder / "callosum.toml").write_text('notify = ["mine"]')
    with pytest.raises(ConfigError, match="a file that is found in a project's folder") as refused:
        load({}, environ, project)
    assert refused.value.at == f"{project}/callosum.toml: notify"
    assert load({"config": project / "callosum.toml"}, environ, project).notify == ("mine",)
    assert load({}, environ, tmp_path).notify == ("mine",)


def test_project_file_is_ignored_if_a_host_chose_the_folder(tmp_path: Path) -> None:
    (tmp_path / "callosum.toml").write_text('mode = "observe"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "own"), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert load({}, environ, tmp_path).mode == "observe"
    assert load({}, environ, tmp_path, project=False).mode == "enforce"
