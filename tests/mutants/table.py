"""The mutants of the promises: one change to the source each, which breaks one promise.

``mutants.toml`` lists them. ``python -m tests.mutants`` applies each mutant to a copy of the repository and runs the
tests that the promise names in docs/promises.md: at least one of them must fail.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("mutants.toml")


class Mutant(NamedTuple):
    """A change of ``old`` to ``new`` in one file, and a sentence that says what it breaks."""

    promise: str
    file: str
    old: str
    new: str
    breaks: str

    @property
    def name(self) -> str:
        return f"{self.promise} ({self.file}: {self.breaks})"


def mutants() -> list[Mutant]:
    return [Mutant(**row) for row in tomllib.loads(TABLE.read_text("utf-8"))["mutant"]]


def mutated(mutant: Mutant, root: Path) -> str:
    """Return the text of the mutant's file with the change.

    Raises ``ValueError``, which names the mutant, if the file is missing, does not contain the old text exactly once,
    or does not compile with the new one.
    """
    path = root / mutant.file
    if not path.is_file():
        raise ValueError(f"{mutant.name}: there is no file {mutant.file}; correct it in {TABLE.name}")
    text = path.read_text("utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(
            f"{mutant.name}: the old text occurs {count} times in {mutant.file}, expected once; correct it in "
            f"{TABLE.name}:\n{mutant.old}"
        )
    changed = text.replace(mutant.old, mutant.new)
    if path.suffix == ".py":
        try:
            compile(changed, mutant.file, "exec")
        except SyntaxError as error:
            raise ValueError(f"{mutant.name}: {mutant.file} does not compile with the new text: {error}") from error
    return changed
