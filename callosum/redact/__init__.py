"""Make text fit to be kept or shown: params for the journal, keys and names without secrets, names for a sentence.

A secret is recognised by its *name* (``password``, ``apiKey``, ``--token X``, ``DB_PASSWORD=X``), by its *place* (an
option, a header, a URL's login) or by its *shape* (``ghp_...``, a JSON web token, a PEM key). Detection is
over-cautious on purpose: hiding a word too many costs nothing.
"""

from callosum.redact.digests import SecretDigests
from callosum.redact.kept_params import secrets_in, summarise
from callosum.redact.quotes import quote, said
from callosum.redact.redactor import MARKER, redact_text

__all__ = ["MARKER", "SecretDigests", "quote", "redact_text", "said", "secrets_in", "summarise"]
