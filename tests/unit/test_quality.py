"""The quality benchmark's own arithmetic and scenes. Nothing is measured here: its data need not be there."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.quality import (
    baselines,
    conflicts,
    data,
    folders,
    incidents,
    keys,
    named,
    placed,
    run,
    scenarios,
    sessions,
    speed,
)
from bench.quality.data import TEST, TUNING, Pair, Recorded
from bench.quality.figures import Part, Row, Share, bar_of, tallied
from bench.quality.judges import judge, meeting
from bench.quality.page import picture
from bench.quality.picture import Point, draw
from bench.quality.policy import policy
from bench.quality.scenarios import Scenario, mail, say
from callosum.model import Classification, Key, Kind, Mode


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0000),
        (0, 0, 0.0, 1.0),
    ],
)
def test_interval_is_the_wilson_interval(hits: int, total: int, low: float, high: float) -> None:
    assert Share(hits, total).interval == pytest.approx((low, high), abs=5e-5)


def row(tuning: tuple[int, int], test: tuple[int, int], target: float, **more: Any) -> Row:
    return Row("x", "y", {TUNING: Share(*tuning), TEST: Share(*test)}, target, **more)


@pytest.mark.parametrize(
    ("one", "met"),
    [
        (row((0, 10), (9, 10), 0.9), True),
        (row((10, 10), (8, 10), 0.9), False),
        (row((10, 10), (1, 10), 0.1, sense="at most"), True),
        (row((0, 10), (2, 10), 0.1, sense="at most"), False),
        (row((10, 10), (10, 10), 0.83, bound="low"), False),  # 10 of 10 may be 72 %
        (row((10, 10), (10, 10), 0.83, bound="low", on="whole"), True),
        (row((10, 10), (0, 0), 0.0), False),  # nothing measured is nothing reached
        (Row("x", "y", {TEST: Share(1, 2)}), None),
    ],
)
def test_a_target_is_met_or_missed(one: Row, met: bool | None) -> None:
    assert one.met is met
    assert bool(bar_of(one)) is (met is not None)
    assert one.as_json()["met"] is met


def test_only_mistakes_of_the_tuning_half_are_kept() -> None:
    part = Part("x", "X")
    for half in (TUNING, TEST):
        part.mistake(half, "x.y", f"seen in {half}")
    assert [one.text for one in part.mistakes] == ["seen in tuning"]


def test_halves_are_stable_and_about_equal() -> None:
    assert [data.half(name) for name in ("git status", "a", "b", "c")] == [TEST, TEST, TUNING, TEST]
    counts = Counter(data.half(f"row {number}") for number in range(2000))
    assert 900 < counts[TUNING] < 1100
    assert tallied([(TEST, True), (TEST, False), (TUNING, True)]) == {TEST: Share(1, 2), TUNING: Share(1, 1)}


@pytest.mark.parametrize(
    ("tool", "effect", "tier"),
    [
        ("get_user", "read", 0),
        ("mcp__x__list-orders", "read", 0),
        ("registry_list", "read", 0),
        ("sendEmail", "write", 3),
        ("delete_repo", "write", 4),
        ("post_message", "write", 2),
        ("frobnicate", "write", 1),
        ("get_or_create", "read", 0),  # cases that the baseline cannot see
    ],
)
def test_verb_in_the_name_decides(tool: str, effect: str, tier: int) -> None:
    assert (baselines.effect(tool), baselines.tier(tool)) == (effect, tier)


def test_equal_arguments_and_equal_ids_are_compared() -> None:
    cancel = ("cancel_order", {"order_id": "#W1", "reason": "late"})
    refund = ("return_order", {"order_id": "#W1", "items": ["7"]})
    note = ("add_note", {"text": "late"})
    look = ("get_order", {"order_id": "#W1"})
    assert baselines.any_equal(cancel, refund)
    assert baselines.same_key(cancel, refund)
    assert baselines.any_equal(cancel, note)
    assert not baselines.same_key(cancel, note)
    assert baselines.same_key(cancel, look)
    assert not baselines.any_equal(look, look)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("rm -rf ./build", "repository"), ("sudo rm -r node_modules dist", "repository"),
        ("cd x && rm -rf y", "repository"), ("find ./out -name '*.o' -delete", "repository"),
        ("rm -rf /tmp/x", "temporary"), ("rm -rf $TMPDIR/x", "temporary"), ("git push origin master", "branch"),
        ("git push origin --delete feature", "branch"), ("git push origin :feature", "branch"),
        ("git branch -D feature", "branch"), ("rm -rf /tmp/../etc", None), ("rm -rf /tmp", None), ("rm -rf .", None),
        ("rm -rf *", None), ("rm -rf ..", None), ("rm -rf .git", None), ("rm -rf node_modules /", None),
        ("rm -rf ~/x", None), ("rm -rf $HOME", None), ("rm -rf $(cat x)", None), ("rm -rf build; rm -rf /", None),
        ("rm -rf", None), ("rm 'unbalanced", None), ("git push --force origin feature", None),
        ("git push origin +feature", None), ("git push origin --delete main", None), ("git branch -D main", None),
        ("git push origin feature", None), ("aws s3 rm s3://bucket/key", None), ("ls", None),
    ],
)  # fmt: skip
def test_policy_cases_are_recognised(command: str, kind: str | None) -> None:
    assert policy(command) == kind


@pytest.mark.parametrize(
    ("mine", "theirs", "meet"),
    [
        (Key("order:1", Mode.READ), Key("order:1", Mode.WRITE), True),
        (Key("channel:a", Mode.READ), Key("channel:a|message", Mode.APPEND), True),
        (Key("file:/a/", Mode.WRITE), Key("file:/a/b", Mode.READ), True),
        (Key("order:1", Mode.READ), Key("order:1", Mode.READ), False),
        (Key("channel:a", Mode.APPEND), Key("channel:a", Mode.APPEND), False),
        (Key("order:1", Mode.WRITE), Key("order:2", Mode.WRITE), False),
    ],
)
def test_keys_conflict_only_in_conflicting_modes(mine: Key, theirs: Key, meet: bool) -> None:
    one, other = Classification(1, (Key("x:1"), mine)), Classification(1, (theirs,))
    assert bool(meeting(one, other)) is bool(meeting(other, one)) is meet


def pair(label: str, a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> Pair:
    one, other = (Recorded("s", "t", task, *call) for task, call in (("1", a), ("2", b)))
    return Pair("s", "t", "random", label, one, other, "s/t/1#0/2#0")


FILE = {"path": "/a", "content": "x"}


def test_pairs_are_replayed_without_reading_their_label() -> None:
    write, other = ("write_file", FILE), ("write_file", {"path": "/b", "content": "x"})
    look = ("read_file", {"path": "/a"})
    for label in ("write_write", "none_both_write"):
        again = conflicts.play(pair(label, write, ("write_file", FILE | {"content": "y"})))
        assert (again.found, again.kinds) == (True, frozenset({Kind.STALE}))
        assert not conflicts.play(pair(label, write, other)).once
        assert conflicts.play(pair(label, look, write)).kinds == {Kind.STALE}
        assert conflicts.play(pair(label, write, look)).found
        assert not conflicts.play(pair(label, look, look)).once
    reader, writer = (Recorded("s", "t", "1", *call) for call in (look, write))
    assert conflicts.reader_returns(reader, writer)
    assert not conflicts.reader_returns(Recorded("s", "t", "1", *other), writer)


def test_recent_on_an_addressee_is_counted_apart() -> None:
    first, second = (
        ("send_email", {"to": "a@example.com", "subject": subject, "body": f"{subject} and nothing else to be said"})
        for subject in ("The garden party", "An invoice of May")
    )
    finding = conflicts.play(pair("none_both_write", first, second))
    assert (finding.kinds, finding.apart) == (frozenset({Kind.RECENT}), True)


def test_every_report_of_the_list_has_a_scenario() -> None:
    numbers = {section: {one.number for one in scenarios.ALL if one.section == section} for section in incidents.TITLES}
    assert numbers["6A"] == set(range(1, 24))
    assert numbers["6B"] == set(range(24, 38))
    assert numbers["6D"] == set(range(47, 54))
    names = [one.name for one in scenarios.ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("one", [one for one in scenarios.ALL if not one.unseen], ids=lambda one: str(one.name))
def test_a_scenario_can_fail(one: Scenario) -> None:
    """It holds calls that must conflict and calls that must pass, so always or never warning fails."""
    wanted = {step.expect for step in one.steps}
    always = incidents.by(lambda a, b: True, one)
    never = incidents.by(lambda a, b: False, one)
    assert wanted & {"told", "passes", "repeated"}
    assert never is ("told" not in wanted)
    assert not (always and never)


def scene(*steps: scenarios.Step) -> Scenario:
    return Scenario("6A", 1, "x", "y", steps)


def test_unexpected_results_are_reported() -> None:
    text = scenarios.REPORT
    good = scene(say("a", "#x", text), say("b", "#x", text, "told"), say("a", "#x", "ok", "passes"))
    assert incidents.play(good) == ""
    assert "was not told" in incidents.play(scene(say("a", "#x", text), say("b", "#y", text, "told")))
    assert "was stopped: confirm, duplicate" in incidents.play(scene(say("a", "#x", text), say("b", "#x", text)))
    new = scene(mail("a", "x@y.z", text, "repeated"))
    assert "did not get its earlier answer" in incidents.play(new)


def test_folder_cases_include_shared_and_separate_folders() -> None:
    kinds = {case.kind for case in placed.ALL}
    assert {"~", "nested", "git dir", "worktrees", "remotes"} <= kinds
    assert sum(case.collide for case in placed.ALL) >= 60
    assert sum(not case.collide for case in placed.ALL) >= 200
    named = set(placed.FOLDERS)
    assert {step.cwd for case in placed.ALL for step in case.steps} <= named


def test_folders_are_distinguished_as_well_as_the_targets_require(tmp_path: Path) -> None:
    part = folders.run(tmp_path)
    assert [row.what for row in part.rows] == ["collisions found", "false alarms"]
    assert all(row.met for row in part.rows), [mistake.text for mistake in part.mistakes]


def test_folder_case_can_fail(tmp_path: Path) -> None:
    placed.build(tmp_path)
    one = placed.sh("git push --force", "shop", "one")
    same, other = (placed.sh("git push --force", cwd, "two") for cwd in ("shop", "blog"))
    assert folders.wrong(placed.Case("x", True, (one, same), swapped=True), tmp_path) == ""
    assert folders.wrong(placed.Case("x", False, (one, other), swapped=True), tmp_path) == ""
    assert "told ['" in folders.wrong(placed.Case("x", False, (one, same)), tmp_path)
    assert folders.wrong(placed.Case("x", True, (one, other)), tmp_path) == "told ['']"


def test_ids_of_a_call_are_found() -> None:
    call = Recorded("s", "t", "1", "x", {"order_id": "#W1", "note": "on the 5th for a@b.c", "folder": "docs", "n": 7})
    assert sessions.ids(call) == {"#w1", "5th", "a@b.c", "docs"}
    assert sessions.ids(Recorded("s", "t", "1", "Bash", {"command": "cd /srv/app && ls -l"})) == {"/srv/app"}


def test_equal_calls_conflict_and_unrelated_ones_do_not() -> None:
    def write(path: str, texts: str) -> list[Recorded]:
        return [Recorded("s", "t", "1", "write_file", {"path": path, "content": text}) for text in texts]

    assert sessions.lockstep(write("/a", "ab"))
    chance = random.Random(1)
    assert sessions.interleaved(write("/a", "ab"), write("/b", "cd"), chance) == ""
    assert "stale" in sessions.interleaved(write("/a", "ab"), write("/a", "cd"), chance)


def test_megabyte_case_has_its_size() -> None:
    for name, call in speed.huge().items():
        if name.startswith("nested"):
            continue  # a value nested ten thousand deep is heavy enough
        said = call.tool + (call.description or "") + json.dumps(dict(call.params), ensure_ascii=False)
        assert 800_000 < len(said) < 2_600_000, name
    assert judge("get_user", {"user_id": "7"}).effect == "read"


def folder(tmp_path: Path) -> Path:
    """A few rows of each file."""
    call = {"task": "1", "i": 0, "tool": "write_file", "args": FILE}
    rows: dict[str, list[dict[str, Any]]] = {
        "tools": [
            {"source": "s", "suite": "t", "tool": f"{verb}_thing_{number}", "description": None, "params_schema": {},
             "annotations": None, "effect": effect, "effect_basis": "authors_type", "tiers_accepted": tiers}
            for verb, effect, tiers in (("get", "read", [0]), ("set", "write", [1]), ("get", "write", None))
            for number in range(12)
        ],
        "traces": [
            {"source": "s", "suite": "t", "task": f"{number}", "call_index": 0, "tool": "write_file",
             "args": {"path": f"/{number}", "content": "x"}, "state_changed": True, "error": None}
            for number in range(12)
        ],
        "conflicts": [
            {"source": "s", "suite": "t", "sample": "random", "label": label, "a": call | {"task": f"{number}"},
             "b": call | {"args": {"path": path, "content": "y"}}}
            for label, path in (("write_write", "/a"), ("none_both_write", "/b"), ("none_both_write", "/a"),
                                ("stale_read", "/a"))
            for number in range(12)
        ],
        "shell": [
            {"command": f"{command} #{number}", "label": label, "source": f"suite/{number % 2}"}
            for command, label in (("ls -l", "safe"), ("ls", "dangerous"), ("rm -rf build", "dangerous"))
            for number in range(12)
        ],
        "shell-hard": [
            {"command": f"{command} #{number}", "label": label, "kind": "k"}
            for command, label in (("rm -rf /srv", "harmful"), ("ls", "harmful"), ("ls -l", "harmless"))
            for number in range(12)
        ],
        "shell-everyday": [{"command": "ls", "script": "list", "accepted": [number % 2]} for number in range(12)],
        "shell-classes": [{"command": "rm -rf /", "kind": kind, "accepted": [4]} for kind in ("x", "harmless: y")],
        "reports-explain": [{"class": "c", "call": {"tool": "write_file", "params": FILE}, "want": want} for want in ({"tier_max": 1, "key": "file:", "mode": "write"}, {"not_key": "file:"}, {"tier_min": 1})],
    }  # fmt: skip
    rows["calls"] = rows["reports-passing"] = rows["reports-explain"][:1]
    rows["tools-more"] = rows["tools"]
    for name, lines in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_whole_run_writes_figures_page_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("figures.json", "page.md", "picture.svg")]
    options = [word for pair in zip(("--json", "--markdown", "--svg"), map(str, files), strict=True) for word in pair]
    assert run.main(["--data", str(folder(tmp_path)), *options]) == 0
    told = capsys.readouterr().out
    assert "targets missed" in told
    figures = json.loads(files[0].read_text())
    assert [part["name"] for part in figures["parts"]] == list(run.PARTS)
    lost = figures["parts"][0]["rows"][1]
    assert lost["what"] == "writes called reads"
    assert lost["whole"]["hits"] == 12
    shell = {(one["what"], one["who"]): one["whole"] for one in figures["parts"][2]["rows"]}
    assert (shell["dangerous at tier 4", "Callosum"]["hits"], shell["dangerous at tier 4", "Callosum"]["total"]) == (
        0,
        12,
    )
    assert [
        (shell[what, "Callosum"]["hits"], shell[what, "Callosum"]["total"])
        for what in (
            "harm that hides, at tier 4",
            "harmless, but looks harmful, at tier 3 or 4",
        )
    ] == [(12, 24), (0, 12)]
    assert [one["whole"]["hits"] for one in figures["parts"][3]["rows"]][3:9] == [1, 1, 1, 2, 1, 6]
    tools = {one["what"]: one["whole"] for one in figures["parts"][0]["rows"] if one["who"] != "verb in the name"}
    assert tools["recorded calls made by a tool that calls others: below the call itself"]["total"] == 12
    page = files[1].read_text()
    assert page.startswith("# How well it judges")
    assert f"{lost['test']['hits']}/{lost['test']['total']}" in page
    assert all(f"## {part['title']}" in page for part in figures["parts"])
    assert str(tmp_path) not in page
    drawn = ET.fromstring(files[2].read_text())  # noqa: S314  our own file
    assert drawn.tag.endswith("svg")


def test_mistakes_of_the_test_half_are_never_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--data", str(folder(tmp_path)), "--only", "shell", "--mistakes", "shell.dangerous"]) == 0
    shown = {line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line.startswith("[shell.")}
    commands = [f"ls #{number}" for number in range(12)]
    assert shown == {command for command in commands if data.half(command) == TUNING}
    assert 0 < len(shown) < 12


def test_run_without_its_data_reports_it_and_writes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit) as ended:
        run.main(["--data", str(tmp_path / "none"), "--markdown", str(page)])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert "NOT MEASURED: shell" in said.out
    assert "shell.jsonl is not there" in said.out.replace("\n", "")
    assert "stays as it is" in said.err
    assert not page.exists()
    assert run.main(["--data", str(tmp_path / "none"), "--only", "incidents"]) == 0


def test_picture_shows_every_classifier() -> None:
    points = [
        Point("us & them", what, Share(9, 10), Share(1, 1000)) for what in ("one", "two")
    ] + [Point("all", "one", Share(10, 10), Share(600, 1000))]  # fmt: skip
    drawn = ET.fromstring(draw(points, "A < B"))  # noqa: S314  our own text
    texts = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "A < B" in texts
    assert {"us & them", "all", "one", "two"} <= set(texts)
    circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == len(points) + 2
    assert all(0 <= float(one.get("cx", "-1")) <= 720 and 0 <= float(one.get("cy", "-1")) <= 420 for one in circles)
    assert picture([Part("shell", "Shell")]) is None


def test_short_wording_pairs_are_many_and_unique() -> None:
    count = Counter(pair.collide for pair in named.ALL)
    assert count[True] >= 100
    assert count[False] >= 300
    assert len({pair.identity for pair in named.ALL}) == len(named.ALL)


def test_pair_fails_if_it_conflicts_in_one_order_only_or_must_not_conflict() -> None:
    same = ("write_file", {"path": "/srv/a", "content": "one"}), ("write_file", {"path": "/srv/a", "content": "two"})
    apart = same[0], ("write_file", {"path": "/srv/b", "content": "two"})
    one_way = ("read_file", {"path": "/srv/a"}), same[0]
    assert not keys.wrong(named.Named("x", True, *same))
    assert keys.wrong(named.Named("x", False, *same))
    assert keys.wrong(named.Named("x", True, *apart))
    assert not keys.wrong(named.Named("x", False, *apart))
    assert keys.wrong(named.Named("x", True, *one_way))
