"""Decide whether a file may hold a secret; then no copy of it is kept. Pure, and over-cautious on purpose."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = re.compile(
    r"(?:^|[._-])(?:env|netrc|npmrc|pypirc|pgpass|htpasswd|kubeconfig)(?:$|[._-])"
    r"|^id_(?:rsa|dsa|ecdsa|ed25519)|secret|credential|passw|\btokens?\b|\.(?:pem|key|p12|pfx|kdbx|jks|asc|gpg)$",
    re.IGNORECASE,
)
_FOLDERS: Final = frozenset((".ssh", ".gnupg", ".aws", ".kube", ".azure", ".docker"))
_SHAPES: Final = tuple(
    "PRIVATE KEY-----,ghp_,gho_,ghs_,github_pat_,glpat-,xoxb-,xoxp-,xapp-,sk-ant-,sk-proj-,sk_live_,rk_live_,AKIA,ASIA,"
    "AIza,ya29.,npm_,pypi-,hf_,SG.,eyJhbGci,dckr_pat_".split(",")
)
_SHAPED: Final = re.compile(rf"PRIVATE KEY-----|(?<![\w-])(?:{'|'.join(map(re.escape, _SHAPES[1:]))})[\w./+=-]{{12,}}")
_WORDS: Final = ("passw", "secret", "token", "api", "credential")
_NAMED: Final = re.compile(
    r"(?:passw|secret|token|api[_-]?key|credential)[\w-]*[\"']?\s*(?:[:=]|=>)\s*"
    r"(?:([\"'])(?=[^\"'\s]{8,}\1)|(?![\"'\s])(?=[^\s\"'()\[\]{}.,;]{8,}\s*$))"
)
"""A secret recognised by its name, next to a quoted text or, at the end of a line, a bare word."""
_WITH_LOGIN: Final = re.compile(r"://[^\s/:@]{1,64}:[^\s/@]{3,}@")


def looks_secret(path: str, text: str) -> bool:
    """Return True if the path or the text suggests that the file holds a secret."""
    folders, _, name = path.rpartition("/")
    if _NAMES.search(name) or not _FOLDERS.isdisjoint(folders.split("/")):
        return True
    if any(clue in text for clue in _SHAPES) and _SHAPED.search(text):
        return True
    if "://" in text and _WITH_LOGIN.search(text):
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
