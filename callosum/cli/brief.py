"""``callosum brief``: what a host puts into a session's context."""

from __future__ import annotations

from typing import Annotated, Final

from callosum.cli.options import Config, Json, Namespace, State, exists, option, settings_of

_FLAGS: Final = frozenset({"instance", "session", "namespace", "key", "cwd", "prompt", "budget"})


def brief(  # noqa: PLR0917  typer names them all
    instance: Annotated[
        str | None, option("--instance", "NAME", "Instance that gets the brief (default: the settings' instance).")
    ] = None,
    session: Annotated[str | None, option("--session", "NAME", "Session of the instance.")] = None,
    key: Annotated[
        list[str] | None,
        option("--key", "KEY", "Context key that matters in addition to those the session touched; may be repeated."),
    ] = None,
    cwd: Annotated[str | None, option("--cwd", "DIR", "The session's folder; files in it matter.")] = None,
    prompt: Annotated[str | None, option("--prompt", "TEXT", "The prompt; addresses and paths in it matter.")] = None,
    budget: Annotated[
        int | None, option("--budget", "N", "Maximum number of tokens (default: 600).", min=0, max=100_000)
    ] = None,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Print the brief that a host adds to a session's context: what other sessions are doing and did recently.

    Prints nothing, with exit code 0, if there is nothing to say. If the budget
    has no room for it, standard error says so. A brief informs; it confirms
    nothing.
    """
    import sys

    from callosum.brief import Brief
    from callosum.errors import ConfigError

    settings = settings_of(state, namespace, config)
    who = instance or settings.instance
    if who is None:
        raise ConfigError("whose brief? name it, or set `instance` in the settings", at="--instance")
    made = Brief()
    if exists(settings):
        from callosum.corpus.bus import Corpus
        from callosum.merging.merge_store import MergeStore
        from callosum.merging.write_merger import MERGES
        from callosum.redact import SecretDigests
        from callosum.regions.budget import RAS
        from callosum.regions.context import Prefrontal
        from callosum.rulebook import kept_secret
        from callosum.stores.opening import open_store

        secrets = SecretDigests(kept_secret(settings.state))
        store, corpus = open_store(settings), Corpus()
        try:
            prefrontal, ras = (
                Prefrontal(
                    corpus,
                    store=store,
                    secrets=secrets,
                    shares=settings.journal_share_purposes,
                    merges=MergeStore(settings.state / MERGES).heads,
                ),
                RAS(corpus, settings.brief_budget),
            )
            found = prefrontal.brief(who, session, namespace=settings.namespace, keys=key or (), cwd=cwd, prompt=prompt)
            made = ras.trim(found, budget)
        except ConfigError as fault:
            place = f"--{fault.at}" if fault.at in _FLAGS else fault.at
            raise ConfigError(fault.message, at=place) from None
        finally:
            store.close()
    if json:
        from callosum.cli import show

        show.json(made)
    elif made.text:
        sys.stdout.buffer.write(made.text.encode() + b"\n")
        sys.stdout.buffer.flush()
    elif made.trimmed:
        lines = "line" if made.trimmed == 1 else "lines"
        sys.stderr.write(f"callosum: {made.trimmed} {lines} did not fit the budget\n")
