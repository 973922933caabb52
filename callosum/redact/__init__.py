"""Makes text fit to be kept or shown: params for the journal, names for a sentence to an agent.

Two ways of knowing a secret: the *name* it stands under (``password``, ``apiKey``, ``--token X``,
``DB_PASSWORD=X``) and its own *shape* (``ghp_...``, a JSON web token, a PEM key, the password in a
URL). What is found is over-cautious on purpose: a word too many costs nothing.
"""

from callosum.redact.quoting import quote
from callosum.redact.saying import said
from callosum.redact.shapes import MARKER, redact_text
from callosum.redact.summary import summarise

__all__ = ["MARKER", "quote", "redact_text", "said", "summarise"]
