"""The shapes of the secrets that providers issue: ``providers.json`` has a row for each provider and kind of secret.

Each pattern is a regular expression for RE2. It begins with a prefix that the provider documents, so that nothing else
has that shape. Secrets without a prefix of their own (a bare UUID, 40 hexadecimal digits) are not in the table: only
the name next to them can reveal them, see ``secret_names``.

Sources: the providers' own documentation. If it states no shape, prefix, alphabet and length come from the rules of
public scanners (gitleaks and its successor Betterleaks, Google's Veles, detect-secrets).
"""

from __future__ import annotations

import json
from pkgutil import get_data
from typing import Final, NamedTuple


class Provider(NamedTuple):
    """A provider, and the pattern that all its secrets of one kind match."""

    name: str
    pattern: str
    has_prefix: bool = True
    """True if every secret holds a literal of three letters, by which RE2 finds it quickly."""


_ROWS: Final = json.loads(get_data(__package__, "providers.json") or b"")

PROVIDERS: Final = tuple(
    Provider(name, pattern, kind == "withPrefix")
    for kind in ("withPrefix", "withoutPrefix")
    for name, *patterns in _ROWS[kind]
    for pattern in patterns
)

WEBHOOKS: Final[tuple[str, ...]] = tuple(_ROWS["webhooks"])
"""Beginnings of addresses whose rest is a secret: anyone who knows the address may post there."""
