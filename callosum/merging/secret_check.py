"""Decide whether a file may hold a secret; then no copy of it is kept. Pure, and over-cautious on purpose."""

from __future__ import annotations

import re
from typing import Final

from callosum.redact import redact_text

_NAMES: Final = re.compile(
    r"(?:^|[._-])(?:env|netrc|npmrc|pypirc|pgpass|htpasswd|kubeconfig)(?:$|[._-])"
    r"|^id_(?:rsa|dsa|ecdsa|ed25519)|secret|credential|passw|\btokens?\b|\.(?:pem|key|p12|pfx|kdbx|jks|asc|gpg)$",
    re.IGNORECASE,
)
_FOLDERS: Final = frozenset((".ssh", ".gnupg", ".aws", ".kube", ".azure", ".docker"))
_SURE: Final = re.compile(r"PRIVATE KEY-----|://[^\s/:@]{0,64}:[^\s/@]{3,}@")
"""A private key, and a login in an address."""
_WORD: Final = re.compile(r"[\w+/=.:|$!~%@?&-]{20,}", re.ASCII)
_TOKEN: Final = re.compile(r"[0-9]|(?:[A-Z]{1,9}[a-z]{1,4}){3}|[A-Z]{16}")
"""What a token of 20 signs holds, and most names in source code do not."""
_WORDS: Final = ("passw", "secret", "token", "api", "credential")
_NAMED: Final = re.compile(
    r"(?:passw|secret|token|api[_-]?key|credential)[\w-]*[\"']?\s*(?:[:=]|=>)\s*"
    r"(?:([\"'])(?=[^\"'\s]{8,}\1)|(?![\"'\s])(?=[^\s\"'()\[\]{}.,;]{8,}\s*$))"
)
"""A secret recognised by its name, next to a quoted text or, at the end of a line, a bare word."""


def looks_secret(path: str, text: str) -> bool:
    """Return True if the path or the text suggests that the file holds a secret."""
    folders, _, name = path.rpartition("/")
    if _NAMES.search(name) or not _FOLDERS.isdisjoint(folders.split("/")):
        return True
    long_words = "\n".join(word for word in _WORD.findall(text) if _TOKEN.search(word))
    if _SURE.search(text) or redact_text(long_words) != long_words:  # redaction knows the shapes of tokens
        return True
    lower = text.lower()
    for word in _WORDS:
        at = lower.find(word)
        while at >= 0:
            start, end = lower.rfind("\n", 0, at) + 1, lower.find("\n", at)
            end = len(lower) if end < 0 else end
            if _NAMED.search(lower, start, end):
                return True
            at = lower.find(word, end)
    return False
