"""Redaction: how many made-up secrets are hidden, and how many harmless values are.

    python -m bench.redaction [--seed N] [--show]

Every run makes new secrets. Two sets are measured:

- The author's own set: one secret of each kind in each context. The author of the redactor's patterns chose these
  kinds, so this part shows that the patterns work, not how many secrets the redactor finds.
- The independent set (``bench.secrets_independent``): its author had not seen the patterns. The redactor was mended
  by looking at misses of half 1 only; half 2 is the estimate for secrets that nobody planned for.
- The third set (``bench.secrets_third``): transcribed from sources that the patterns were not made from, after the
  patterns; again only the misses of half 1 were looked at.
- The fourth set (``bench.secrets_fourth``): the rules of two scanners that nobody had used, frozen before measuring;
  again only the misses of half 1 were looked at.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import string
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import secrets_fourth, secrets_harmless, secrets_independent, secrets_third
from callosum import Call
from callosum.redact import redact_text, summarise
from callosum.redact.secret_names import Concealment, cover
from callosum.redact.shape_table import TABLE
from callosum.rules.ruleset import RuleSet

DATA: Final = Path(__file__).parents[2] / "shared" / "data"
RECALL: Final = 0.97
FALSE: Final = 0.005
FALSE_HARD: Final = 5
"""Most strings of ``bench.secrets_harmless`` that may be redacted."""

_ALPHABETS: Final = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "h": "0123456789abcdef",
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "p": string.ascii_letters + string.digits + "!#%^*_+-.~",
}
_FIELD: Final = re.compile(r"\{(\w)(\d+)\}")

KINDS: Final[dict[str, tuple[str, ...]]] = {row.id: row.match for row in TABLE.rows["provider"]}
"""The shapes of secrets by provider: the examples of the table. ``{h32}`` is 32 hexadecimal digits."""

CONTEXTS: Final[dict[str, str]] = {
    "a param": "{}",
    "a mail": "Hi Ana,\n\nhere it is: {}\nBest, Tom",
    "a mail, in brackets": "Please use the new one ({}) from now on.",
    "a shell line": "export X={} && ./deploy.sh --region eu",
    "a shell option": "tool run -t {} input.txt",
    "a URL's path": "https://api.example.com/v1/{}/items",
    "a URL's query": "https://api.example.com/items?x={}&page=2",
    "a file name": "/home/ana/backup_{}.txt",
    "JSON in a text": 'body: {{"x": "{}", "n": 1}}',
    "XML": "<item><x>{}</x></item>",
    "a header": "X-Custom: {}",
    "zero-width disguise": "it is {} today",
    "full-width disguise": "it is {} now",
}

PLACES: Final[dict[str, str]] = {
    "curl -u": "curl -u ana:{} https://x.org",
    "curl --user": "curl --user 'ana:{}' https://x.org",
    "sshpass": "sshpass -p '{}' ssh ana@host",
    "mysql -p": "mysql -u root -p{} shop",
    "mysqldump": "mysqldump -uroot -p'{}' shop > x.sql",
    "redis-cli -a": "redis-cli -h db -a {} ping",
    "docker login": "docker login -u ana -p {} registry.example.com",
    "az login": "az login --service-principal -u 1 -p {} --tenant 2",
    "unzip": "unzip -P {} x.zip",
    "ldapsearch": "ldapsearch -x -D cn=admin -w {} -b dc=x",
    "smbclient": "smbclient //h/s -U ana%{}",
    "keytool": "keytool -list -keystore x.jks -storepass {}",
    "openssl": "openssl rsa -in k.pem -passin pass:{}",
    "sudo -S": "echo '{}' | sudo -S make install",
    "twine": "twine upload -u __token__ -p {} dist/*",
    "vault login": "vault login {}",
    "PGPASSWORD": "PGPASSWORD={} psql -h db",
    "DB_PASS": "DB_PASS={} ./run",
    "--password": "tool --password {} x",
    "--api-key=": "tool --api-key={} x",
    "aws configure": "aws configure set aws_secret_access_key {}",
    "password:": "Your password: {}\nBest",
    "Passwort:": "Das Passwort: {}\n",
    "password is": "The password is {} for now.",
    "password for": "The password for staging is {}\n",
    "API key:": "API key: {}",
    "AccountKey": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=core.windows.net",
    "SharedAccessKey": "Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={}",
    "Server=": "Server=db;Database=x;User Id=sa;Password={};",
    "?sig=": "https://x.blob.core.windows.net/c/f?sv=2022&se=2026&sig={alnum}",
    "X-Amz-Signature": "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={alnum}",
    "?key=": "https://maps.example.com/api?q=a&key={alnum}",
    "?access_token=": "https://x.org/me?access_token={}&a=1",
    "harmless name before": "TOKEN_URL=https://idp.example.com/t?client_secret={}",
    "author:": "author: password={}",
    "otpauth": "otpauth://totp/x:ana?secret={}&issuer=x",
    "userinfo": "postgres://ana:{}@db:5432/x",
    "redis userinfo": "redis://:{}@cache:6379/0",
    "Basic": "Authorization: Basic {base64}",
    "Basic alone": "it sends Basic {base64} each time",
    "Bearer": "Authorization: Bearer {}",
    "Token scheme": "Authorization: Token {}",
    "X-Api-Key": "X-Api-Key: {}",
    "Cookie": "Cookie: session={}; theme=dark",
    "Set-Cookie": "Set-Cookie: sid={}; HttpOnly",
    "XML element": "<config><password>{}</password></config>",
    "XML namespace": '<wsse:Password Type="text">{}</wsse:Password>',
    "XML attribute": '<db user="sa" password="{}"/>',
    "XML pair": '<add key="ApiKey" value="{}"/>',
    "plist": "<key>AuthToken</key>\n<string>{}</string>",
    "YAML pair": "- name: DB_PASSWORD\n  value: {}\n",
    "JSON": '{{"password": "{}", "a": 1}}',
    "JSON in JSON": '{{"b": "{{\\"api_key\\": \\"{}\\"}}"}}',
    "netrc": "machine x.org login ana password {}",
    "Slack webhook": "https://hooks.slack.com/services/T0AB/B0CD/{alnum}",
    "Discord webhook": "https://discord.com/api/webhooks/123456789012345678/{alnum}",
    "Zapier webhook": "https://hooks.zapier.com/hooks/catch/123/{alnum}/",
    "PEM": "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "WireGuard": "PrivateKey = {}",
    "npmrc": "//registry.npmjs.org/:_authToken={}",
    "zero-width password": "pass\u200bword: {}",
    "full-width password": "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44\uff1a{}",
}
"""Texts around a secret without a shape of its own."""

HARMLESS: Final = (
    "Lunch on Tuesday at 12:30?",
    "The token count is 4096 and max_tokens=512",
    "git commit -m 'Fix the password reset form'",
    "https://docs.google.com/document/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit",
    "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
    "https://example.com/search?q=key+lime+pie&page=2&sort=desc",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "e83c5163316f89bfbde7d9ab23ca2e25604af290",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "call_9aBcDeFgHiJkLmNoPqRsTuVw",
    "toolu_01A09q90qw90lq917835lq9",
    "/srv/app/tests/unit/test_authentication_token_refresh_when_the_clock_jumps.py",
    "def test_that_a_very_long_function_name_is_no_secret_2026_11_23(): pass",
    "npm run build:production -- --mode=development-with-source-maps",
    "kubectl get secrets --namespace payments-production",
    "SELECT id, password_hash FROM users WHERE id = 42",
    "The author: Ana; the passenger: Tom; the keyboard: QWERTZ",
    "docker run -p 8080:80 -v /data:/data nginx:1.27",
    "mysql -u root -p shop < dump.sql",
    "com.example.project.module.VeryLongClassNameForTheServiceImplementation2",
    "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "arn:aws:iam::123456789012:role/service-role/my-role-9f8e7d6c",
    "data:image/png;base64,iVBORw0KGgo=",
    "Token: 4096 of 8192 used",
    "kubectl get secret 'db-credentials' -o yaml",
    "password: str, token: str | None = None",
    "PASSWORD=$DB_PASSWORD ./run.sh --token ${TOKEN}",
    "What is the password policy of the new portal?",
    "The password is required and the token is optional.",
    "feature/PROJ-1234-refresh-token-rotation",
    "Größe: 180 cm, Gewicht: 75 kg, straße 12",
    "I will be at https://meet.google.com/abc-defg-hij at 10.",
)
"""Values of everyday calls that a redactor might take for secrets."""


class Tally(NamedTuple):
    """How many of how many, and those that were not as they should be."""

    hits: int
    all: int
    others: tuple[str, ...]

    @property
    def share(self) -> float:
        return self.hits / self.all if self.all else 0.0


def fill(template: str, chance: random.Random) -> str:
    """Returns a made-up secret of a template's shape."""
    return _FIELD.sub(lambda m: "".join(chance.choices(_ALPHABETS[m[1]], k=int(m[2]))), template)


def password(chance: random.Random) -> str:
    """Returns a made-up password: letters, digits and signs, as people's password managers make them."""
    return chance.choice(string.ascii_letters) + chance.choice(string.digits) + fill("{p12}", chance)[:-1] + "x"


def disguise(context: str, text: str) -> str:
    """Returns the text as the context disguises it."""
    if context == "zero-width disguise":
        return text[:5] + "".join(f"{char}\u200b" if number % 4 == 2 else char for number, char in enumerate(text[5:]))
    if context == "full-width disguise":
        return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    return text


def is_hidden(secret: str, shown: str) -> bool:
    """Whether no long part of a secret is left in a text."""
    piece = max(6, len(secret) // 3) if len(secret) > 8 else len(secret)
    return not any(secret[at : at + piece] in shown for at in range(len(secret) - piece + 1))


def of_providers(redact: Callable[[str], str], chance: random.Random, contexts: int = len(CONTEXTS)) -> Tally:
    """Plant a secret of each kind in each context.

    With fewer ``contexts`` a kind is planted in that many, and the next kind in the following ones: every kind and
    every context still occurs.
    """
    hits, missed, count = 0, [], 0
    following = cycle(CONTEXTS.items())
    for provider, templates in KINDS.items():
        for template in templates:
            for context, around in islice(following, contexts):
                secret = fill(template, chance)
                shown = redact(disguise(context, around.format(secret)))
                count += 1
                if is_hidden(secret, shown) and is_hidden(disguise("full-width disguise", secret), shown):
                    hits += 1
                else:
                    missed.append(f"{provider}, {context}: {template}")
    return Tally(hits, count, tuple(missed))


def of_places(redact: Callable[[str], str], chance: random.Random, rounds: int = 10) -> Tally:
    """Plant passwords without a shape where a word beside them reveals them."""
    hits, missed, count = 0, [], 0
    for _ in range(rounds):
        for name, around in PLACES.items():
            secret = fill("{A24}", chance) if "{alnum}" in around else password(chance)
            coded = base64.b64encode(f"ana:{secret}".encode()).decode()
            shown = redact(around.format(secret, base64=coded, alnum=secret))
            count += 1
            if is_hidden(secret, shown) and is_hidden(coded, shown):
                hits += 1
            else:
                missed.append(f"{name}: {secret}")
    return Tally(hits, count, tuple(missed))


def of_independent(
    half: int, seed: int, tables: secrets_independent.Tables = secrets_independent.TABLES, every: int = 1
) -> Tally:
    """Count the independent cases of a half in which no secret survives in what the gate keeps or in its keys.

    ``every``: 3 tries every third case. Neighbouring cases are of one kind, so all kinds still occur.
    """
    rules = RuleSet.parse(None, secret=b"content key of a bench")
    hits, missed, count = 0, [], 0
    of_half = (case for case in secrets_independent.cases(seed, tables) if secrets_independent.half(case.kind) == half)
    for case in islice(of_half, None, None, every):
        count += 1
        keys = [key.name for key in rules.classify(Call("bench", case.tool, case.params)).keys]
        kept = json.dumps([summarise(case.params), summarise({"result": case.result}), keys], ensure_ascii=False)
        if secrets_independent.survives(case.secrets, kept):
            missed.append(f"{case.kind}, {case.context}")
        else:
            hits += 1
    return Tally(hits, count, tuple(missed))


def harmless() -> Iterator[dict[str, Any]]:
    """Yields params without secrets: our own, and those of the recorded calls where the data is at hand."""
    yield from ({"text": text} for text in HARMLESS)
    for name, field in (("traces.jsonl", "args"), ("shell-everyday.jsonl", "command")):
        path = DATA / name
        if not path.exists():
            print(f"not measured: {path} is missing", file=sys.stderr)
            continue
        for line in path.read_text().splitlines():
            found = json.loads(line)[field]
            yield found if isinstance(found, dict) else {"command": found}


def of_harmless() -> Tally:
    """Counts the values, outside of those under a secret's name, that a summary leaves as they are."""
    kept, changed, count = 0, [], 0
    for params in harmless():
        for value, shown in _leaves(params, summarise(params, mode="full")):
            count += 1
            if "[redacted]" in str(shown):
                changed.append(str(value)[:200])
            else:
                kept += 1
    return Tally(kept, count, tuple(changed))


def of_hard(seed: int) -> Tally:
    """Count the harmless strings that resemble secrets and stay as they are: four of each kind."""
    chance = random.Random(seed)
    strings = [fill(kind, chance) for kind in secrets_harmless.KINDS for _ in range(4)]
    changed = tuple(text for text in strings if redact_text(text) != text)
    return Tally(len(strings) - len(changed), len(strings), changed)


def _leaves(value: Any, shown: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict) and isinstance(shown, dict):
        for (name, inner), other in zip(value.items(), shown.values(), strict=True):
            if cover(name) is Concealment.NOTHING:
                yield from _leaves(inner, other)
    elif isinstance(value, list) and isinstance(shown, list):
        for inner, other in zip(value, shown, strict=True):
            yield from _leaves(inner, other)
    else:
        yield value, shown


def main() -> int:
    """Measures and prints; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what was missed (made-up secrets)")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    tallies = {
        "providers of the author's own set": of_providers(redact_text, chance),
        "places of the author's own set": of_places(redact_text, chance),
        "independent set, half 1": of_independent(1, given.seed),
        "independent set, half 2": of_independent(2, given.seed),
        "third set, half 1": of_independent(1, given.seed, secrets_third.TABLES),
        "third set, half 2": of_independent(2, given.seed, secrets_third.TABLES),
        "fourth set, half 1": of_independent(1, given.seed, secrets_fourth.TABLES),
        "fourth set, half 2": of_independent(2, given.seed, secrets_fourth.TABLES),
    }
    for name, tally in tallies.items():
        print(f"{name}: {tally.hits} of {tally.all} hidden, {100 * tally.share:.2f} %")
        for one in tally.others if given.show else ():
            print(f"    {one}")
    quiet = of_harmless()
    print(f"harmless values: {quiet.all - quiet.hits} of {quiet.all} redacted, {100 * (1 - quiet.share):.2f} %")
    for one in quiet.others if given.show else ():
        print(f"    {one}")
    hard = of_hard(given.seed)
    print(f"hard harmless strings: {hard.all - hard.hits} of {hard.all} redacted")
    reached = all(tally.share >= RECALL for tally in tallies.values()) and 1 - quiet.share <= FALSE
    reached = reached and hard.all - hard.hits <= FALSE_HARD
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
