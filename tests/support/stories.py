"""Stories of sessions in words: their calls, the time between them, and what the gate must answer."""

import re

from callosum.model import Decision
from tests.support.world import World

TEXTS = {
    "numbers": "the quarterly numbers are attached, have a look before noon",
    "nearly": "hi, the quarterly numbers are attached, have a look before noon",
    "lunch": "lunch has moved to the garden because the kitchen is being painted",
    "key": "who has seen the key of the room with the large table in it",
    "120": "please pay the invoice of 120 euros to the printer today",
    "210": "please pay the invoice of 210 euros to the printer today",
    "ok": "ok",
}
_OUTCOMES = {"ends": "done", "fails": "failed", "cancels": "cancelled"}
_TIME = re.compile(r"([\d.]+) s")
_END = re.compile(rf"(\w+) ({'|'.join(_OUTCOMES)}|approved|denied)( late)?")
_CALL = re.compile(
    r"(?P<who>\w+) (?P<did>did )?(?P<tool>[\w-]+)(?P<pause>\?)?(?: on (?P<on>\S+))?(?: says (?P<text>\w+))?"
    r"(?: in (?P<run>\w+))?(?: as (?P<id>\w+))?(?: -> (?P<answer>allow|warn|confirm|ask|block)?(?: ?(?P<kinds>[a-z+]+))?)?"
)


def tell(world: World, story: str) -> None:
    """Play the steps of a story, which ``; `` separates.

    - ``5 s``: time passes.
    - ``mira act3``: a call on the key "plan", which stays open; ``mira did act3``: one that is reported at once.
      ``act3?`` comes from a host that pauses. Then may follow ``on`` a key or ``nothing``, ``says`` one of ``TEXTS``,
      ``in`` a run, ``as`` a call id, and ``->`` with the verdict and the kinds of all conflicts. ``Read`` and ``Write``
      have a file of their own.
    - ``mira ends``, ``mira fails``, ``mira cancels``: she reports her last call; ``late`` says that it must be late.
    - ``mira approved``, ``mira denied``: a person answers her last call.
    """
    last: dict[str, Decision] = {}
    for step in story.split("; "):
        if time := _TIME.fullmatch(step):
            world.after(float(time[1]))
        elif end := _END.fullmatch(step):
            if end[2] in _OUTCOMES:
                report = world.end(end[1], last[end[1]], _OUTCOMES[end[2]])
            else:
                report = (world.gate.approve if end[2] == "approved" else world.gate.deny)(last[end[1]].id)
            assert (report.ok, report.late) == (True, bool(end[3])), step
        else:
            call = _CALL.fullmatch(step)
            assert call, f"not understood: {step}"
            more = {"run": call["run"]} | ({"call_id": call["id"]} if call["id"] else {})
            field = "content" if call["tool"] == "Write" else "text"
            params = {field: TEXTS[call["text"]]} if call["text"] else {}
            on = None if call["on"] == "nothing" else call["on"] or "plan"
            if call["tool"] in ("Read", "Write"):
                on, params = None, {**params, "file_path": __file__}
            act = world.do if call["did"] else world.ask
            answer = last[call["who"]] = act(
                call["who"], call["tool"], on, params=params, pause=bool(call["pause"]), **more
            )
            assert call["answer"] in (None, answer.verdict), (step, answer)
            if call["kinds"]:
                assert "+".join(sorted(conflict.kind for conflict in answer.conflicts)) == call["kinds"], (step, answer)
