"""Makes text fit to be kept or shown: params for the journal, keys and names without secrets, names for a sentence.

A secret is known by the *name* it stands under (``password``, ``apiKey``, ``--token X``, ``DB_PASSWORD=X``), by the
*place* it stands in (an option, a header, a URL's login) or by its own *shape* (``ghp_...``, a JSON web token, a PEM
key). What is found is over-cautious on purpose: a word too many costs nothing.
"""

from callosum.redact.digests import SecretDigests
from callosum.redact.quoting import quote
from callosum.redact.saying import said
from callosum.redact.shapes import MARKER, redact_text
from callosum.redact.summary import secrets_in, summarise

__all__ = ["MARKER", "SecretDigests", "quote", "redact_text", "said", "secrets_in", "summarise"]
