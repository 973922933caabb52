"""``callosum search``: find what was done about something, in the journal and in the pages of memory."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from callosum.characters import escaped
from callosum.cli import show
from callosum.cli.options import NOTHING_YET, InFolder, Json, Since, exists, open_gate, option
from callosum.cli.text import clean
from callosum.cli.times import clock, moment
from callosum.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from callosum.regions.search import Cortex, SearchHit
    from callosum.stores.base import Store

_WITHOUT: Final = re.compile(r"-[^-].+", re.DOTALL)
_MATCH: Final = "bold cyan"


class Words(TyperCommand):
    """A command whose arguments may include ``-staging``, a word to leave out, which is not a row of short options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put such words behind all options. Refuse one that is an option's name with a missing dash."""
        end = args.index("--") if "--" in args else len(args)
        long = {name for param in self.get_params(ctx) for name in param.opts if name.startswith("--")}
        for arg in args[:end]:
            name = arg.partition("=")[0]
            if f"-{name}" in long and not name.startswith("--"):
                raise typer.BadParameter(
                    f"no such option; did you mean -{name}? A word to leave out of just this name goes after --.",
                    ctx,
                    param_hint=name,
                )
        words = [arg for arg in args[:end] if _WITHOUT.fullmatch(arg)]
        others = [arg for arg in args[:end] if not _WITHOUT.fullmatch(arg)]
        return super().parse_args(ctx, [*others, "--", *args[end + 1 :], *words])


def search(
    settings: InFolder,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY...",
            help="Words that must all occur: a name, part of a key, a phrase ('\"on it\"'), the beginning of a word "
            "(deploy*), a day (2026-05-16). A word to leave out has a dash in front (-staging).",
            show_default=False,
        ),
    ],
    session: Annotated[
        str | None, option("--session", "NAME", "Only this session's entries (* matches anything).")
    ] = None,
    since: Since = None,
    namespace: Annotated[
        str | None, option("--namespace", "NAME", "Only this namespace's entries (default: all).")
    ] = None,
    limit: Annotated[int, option("--limit", "N", "Show the best N.", min=1, max=1000)] = 20,
    json: Json = False,
) -> bool:
    """Find words in the journal, including rotated entries, and in the pages of memory; best match first.

    Exit code 1 if nothing matches.
    """
    from callosum.corpus.bus import Corpus
    from callosum.regions.search import MAX_HITS, Cortex
    from callosum.regions.search_query import match_of
    from callosum.stores.memory import MemoryStore

    words = " ".join(query)
    match_of(words)  # an invalid query is reported before anything is opened
    start = moment(since, "--since") if since else None
    if not exists(settings):
        if not json:
            show.line(NOTHING_YET)
        return False
    store: Store
    fault: StoreError | None = None
    try:
        store = open_gate(settings).store
    except StoreUnavailable as error:  # indexed text is found anyway
        store, fault = MemoryStore(), error
    with closing(store), Corpus() as corpus:
        cortex = Cortex(corpus, store=store, state=settings.state)
        _bring_up_to_date(cortex, fault)
        most = min(limit + 1, MAX_HITS)  # one more tells whether there are more
        found = cortex.search(words, limit=most, namespace=namespace, session=session, since=start)
    found, more = found[:limit], len(found) > limit
    if json:
        for hit in found:
            show.json(hit)
    elif found:
        _print(found, more=more)
    else:
        show.line("Nothing fits.")
    return bool(found)


def _bring_up_to_date(cortex: Cortex, fault: StoreError | None) -> None:
    """Index what is new, up to a limit. Say so if the index stays behind, because of ``fault`` or another reason.

    Raises ``StoreError`` if nothing can be indexed and nothing was.
    """
    from callosum.regions.search import BUDGET

    try:
        if fault is None and cortex.index(BUDGET) < BUDGET:
            return
    except StoreError as error:
        fault = error
    upto = cortex.upto()
    if fault is not None and not upto:
        raise fault
    why = "the journal is long; search again for the next part" if fault is None else clean(str(fault), 500)
    # On standard error, so that a program reads only hits.
    sys.stderr.write(f"callosum: the index ends at {clock(upto / 1_000_000)}: {why}\n")
    sys.stderr.flush()


def _print(found: Sequence[SearchHit], *, more: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = show.console()
    for hit in found:
        console.print(_head(hit), soft_wrap=True)
        text = _marked(hit, "text", 600)
        if text.plain:
            if console.is_terminal:
                console.print(Padding(text, (0, 0, 0, 4), expand=False))
            else:  # a line stays one line
                console.print(Text("    ").append_text(text), soft_wrap=True)
    show.line()
    count = "One hit" if len(found) == 1 else f"{len(found)} hits"
    show.line(f"The best {len(found)}; --limit shows more." if more else f"{count}.", "dim")


def _head(hit: SearchHit) -> Text:
    """Return time, session, event and key."""
    from rich.text import Text

    parts = [(Text(clock(hit.at), style="dim"), 19)]
    if hit.path:
        parts += [(_marked(hit, "path", 200), 0), (Text(hit.kind, style="dim"), 0)]
    else:
        parts += [(_marked(hit, "session", 40), 16), (_marked(hit, "tool", 40), 20)]
        parts += [(_answer(hit), 9), (_marked(hit, "key", 160), 0)]
    row = Text()
    for text, width in parts:
        row.append_text(text)
        row.append(" " * (max(0, width - text.cell_len) + 2))
    row.rstrip()
    return row


def _answer(hit: SearchHit) -> Text:
    """Return how an entry was decided, or the sort of the entry if that says more."""
    from rich.text import Text

    styles: dict[str, str] = {str(name): style for name, style in (*show.STATES.items(), *show.VERDICTS.items())}
    words = hit.answer.split()
    shown = [word for word in words if word not in ("intercept", "complete", hit.tool)] or words
    return Text(" ").join(show.cell(word, styles.get(word, "")) for word in shown)


def _marked(hit: SearchHit, field: str, limit: int) -> Text:
    """Return a field's text with the matches marked, escaped and cut to ``limit``."""
    from rich.text import Text

    made, place = Text(), 0
    text: str = getattr(hit, field)
    shown = escaped if field == "key" else str
    for start, end in (*hit.marks.get(field, ()), (len(text), len(text))):
        made.append(_harmless(shown(text[place:start]), limit))
        made.append(_harmless(shown(text[start:end]), limit), _MATCH)
        place = end
    made.truncate(limit, overflow="ellipsis")
    return made


def _harmless(text: str, limit: int) -> str:
    """Return one escaped line that keeps the spaces at its ends, because it is part of a longer line."""
    inside = clean(text, limit)
    return f"{' ' * text[:1].isspace()}{inside}{' ' * (bool(inside) and text[-1:].isspace())}"
