"""Cut a command line into its simple commands, as a shell would.

``parse`` goes once through the text, from left to right, with a stack of its own, so that its time is
linear and nesting costs no recursion. It sees quotes, substitutions, here-documents, subshells,
functions, loops, ``case`` and ``[[``. It runs nothing and knows no program. Text that no shell would
take is read as far as it goes and marked ``odd``.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAX_TEXT: Final = 131_072
"""How many characters of a text are read."""
MAX_TOKENS: Final = 12_000
"""How many tokens of a text are read; what is longer is no line that anybody can judge."""
MAX_OPEN: Final = 256
"""How many quotes, substitutions and subshells may be open at once."""
MAX_HERE: Final = 4
"""How deep here-documents are read that hold substitutions that hold here-documents."""

_OUT: Final = re.compile(
    r"([^\s'\"\\`$;&|()<>]+)"  # 1 plain characters of a word
    r"|([^\S\n]+)"  # 2 blanks
    r"|('[^']*')"  # 3
    r"|\"([^\"\\$`]*)\""  # 4 a quoted text in which nothing happens
    r"|(\n)"  # 5
    r"|(&&|\|\||;;&|;;|;&|;|\|&|\||&(?!>))"  # 6 what separates commands
    r"|(<<<|<<-|<<|&>>|&>|>&|<&|<>|>>|>\||(?:[<>](?!\()))"  # 7 redirections
    r"|\\([\s\S])"  # 8
    r"|(\$\(\(|\$\(|<\(|>\(|`)"  # 9 what opens a substitution
    r"|(\$\{)"  # 10
    r"|(\$(?:\w+|[@*#?$!-])?(?!['\"])|\$(?=\"))"  # 11 a variable
    r"|\$'((?:[^'\\]|\\.)*)'"  # 12
    r"|(\()"  # 13
    r"|(\))"  # 14
    r"|(\")"  # 15
    r"|([\s\S])",  # 16 a quote without its end
    re.ASCII,
)
_WHOLE: Final = re.compile(r"((?:[^\s'\"\\`$;&|()<>#\[\]][^\s'\"\\`$;&|()<>]*+[ \t]++)++)")
"""Words that are plain from their first character to the blank after them."""
_SIMPLE: Final = re.compile(r"[A-Za-z0-9./-][\w ./:=,@%+-]*")
"""A line of plain words alone."""
_QUOTED: Final = re.compile(r"([^\"\\$`]+)|(\")|\\([\s\S])|(\$\(\(|\$\(|`)|(\$\{)|([\s\S])")
_HERE: Final = re.compile(r"([^\\$`]+)|(?!)()|\\([\s\S])|(\$\(\(|\$\(|`)|(\$\{)|([\s\S])")
_PARAM: Final = re.compile(r"([^\"'\\$`}]+|'[^']*')|(\})|\\([\s\S])|(\$\(\(|\$\(|`)|(\$\{)|([\s\S])")
_SUM: Final = re.compile(r"([^\"\\$`()]+)|(\)\))|\\([\s\S])|(\$\(\(|\$\(|`)|(\$\{)|([\s\S])")
_ADJACENT: Final = re.compile(r"[\w./~][ \t]+-?[A-Za-z_./~'\"$]")
_NO_PARAMS: Final = re.compile(r"[^\S\n]*\)")
_LIST_VALUE: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=$")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_NAMED_ESCAPES: Final = dict(zip("ntrabeEfv", "\n\t\r\a\b\x1b\x1b\f\v", strict=True))

_LEADING: Final = frozenset("if then elif else while until do ! { coproc".split())
_CLOSING: Final = frozenset("fi done esac }".split())
_KEYWORDS: Final = _LEADING | _CLOSING | {"case", "function"}
_TESTS: Final = frozenset(("[[", "for"))
_BODIES: Final = frozenset(("do", "then", "{"))
_LITERAL: Final = frozenset(("echo", "printf", "cat"))
_NEVER_CLOSED: Final = "something is opened and never closed"


class Command:
    """A simple command: its ``words`` without quotes, what it redirects, what it reads.

    Variables and substitutions stand in the words as they were written (``$HOME``, ``$(curl x)``);
    a substitution whose output is plain from the text is replaced by it. ``stdin`` is the text of a
    here-document or here-string, ``piped`` the command whose output it reads, ``end`` the sign that
    follows it, ``inside`` the function in whose body it stands. ``texts`` are those of the descriptors that it opens
    (``3<<<``, ``<(...)``), by the name of each below ``/dev/fd``.
    """

    __slots__ = ("end", "inside", "piped", "redirects", "stdin", "texts", "words")

    def __init__(self) -> None:
        self.words: list[str] = []
        self.redirects: list[tuple[str, str]] = []
        self.stdin: str | None = None
        self.piped: Command | None = None
        self.texts: dict[str, str] = {}
        self.end = ""
        self.inside = ""


class Parsed:
    """``steps``: commands in the order in which they run, True where a subshell begins, False where it ends.

    ``odd`` tells in words why this is no well-formed command line, ``cut`` whether it was too long,
    ``left`` how many more tokens might have been read.
    """

    __slots__ = ("cut", "left", "odd", "steps")

    def __init__(self) -> None:
        self.steps: list[Command | bool] = []
        self.odd = ""
        self.cut = False
        self.left = 0


_NOBODY: Final = Command()


class _Frame:
    """What was open where something was opened. ``kept`` is the state of the list of commands around it."""

    __slots__ = ("closer", "kept", "start")

    def __init__(self, closer: str, start: int) -> None:
        self.closer = closer
        self.start = start
        self.kept: tuple[Any, ...] = ()


def parse(text: str, tokens: int = MAX_TOKENS) -> Parsed:
    """Return the simple commands of a text. Never raises; see ``Parsed.odd`` and ``Parsed.cut``.

    At most ``tokens`` tokens are read.
    """
    if len(text) < 512 and _SIMPLE.fullmatch(text):
        command = Command()
        command.words = text.split()
        if command.words[0] not in _KEYWORDS:
            found = Parsed()
            found.steps.append(command)
            found.left = tokens - len(command.words)
            return found
    parser = _Parser(text[:MAX_TEXT], tokens, 0)
    parser.run("")
    parser.out.left = max(0, parser.tokens)
    if len(text) > MAX_TEXT:
        parser.out.cut = True
    return parser.out


class _Parser:
    """One pass. The attributes are the state of the innermost list of commands."""

    __slots__ = (
        "bodies", "braces", "cases", "command", "defined", "depth", "documents", "functions", "has", "last", "number",
        "out", "parts", "pattern", "pending", "piped", "quoted", "stack", "sums", "test", "text", "tokens",
    )  # fmt: skip

    def __init__(self, text: str, tokens: int, depth: int) -> None:
        self.text, self.tokens, self.depth = text, tokens, depth
        self.out = Parsed()
        self.command = Command()
        self.parts: list[str] = []  # of the word that is being read
        self.has = self.quoted = self.test = self.pattern = False
        self.pending = ""  # the redirection whose target comes next
        self.number = ""  # of the descriptor that it opens, where it tells
        self.cases = 0
        self.bodies = 0  # how many "then" and "do" wait for their "fi" and "done"
        self.piped: Command | None = None
        self.last: Command | None = None
        self.stack: list[_Frame] = []
        self.documents: list[tuple[str, bool, bool, Command, str]] = []
        self.functions: list[str] = []  # in whose bodies we are
        self.braces: list[str] = []  # the function that each open brace began, or ""
        self.defined = ""
        self.sums = 8  # how many times "((" may turn out to be no sum

    def run(self, closer: str) -> None:  # noqa: C901, PLR0912, PLR0915 - a branch for each kind of token, no more
        """Read the whole text; ``closer`` ``here`` means that it is the body of a here-document."""
        if closer:
            self._push(closer, 0)
        text, size, pos = self.text, len(self.text), 0
        out, whole = _OUT.match, _WHOLE.match
        while pos < size:
            self.tokens -= 1
            if self.tokens < 0 or len(self.stack) > MAX_OPEN:
                break
            if self.stack:
                closer = self.stack[-1].closer
                if closer in _EMBEDDED:
                    pos = self._embedded(closer, pos)
                    continue
            if not self.has and not self.pending and not self.test:
                match = whole(text, pos)
                if match is not None:
                    words = match.group(1).split()
                    self.command.words += words if len(words) <= self.tokens else words[: self.tokens]
                    self.tokens -= len(words)
                    pos = match.end()
                    continue
            match = out(text, pos)
            if match is None:  # the last alternative takes any character
                break
            kind = match.lastindex
            pos = match.end()
            if kind == 1:
                chunk = match.group(1)
                if chunk[0] == "#" and not self.has:
                    end = text.find("\n", pos)
                    pos = size if end < 0 else end
                    continue
                self.parts.append(chunk)
                self.has = True
            elif kind == 2:
                if self.has:
                    self._end_word()
            elif kind == 3:
                self._quote(match.group(3)[1:-1])
            elif kind == 4:
                self._quote(match.group(4))
            elif kind == 5:
                self.test = False
                self._separate("\n")
                if self.documents:
                    pos = self._read_documents(pos)
            elif kind == 6:
                self._separate(match.group(6))
            elif kind == 7:
                self._redirect(match.group(7))
            elif kind == 8:
                if match.group(8) != "\n":
                    self._quote(match.group(8))
            elif kind == 9:
                pos = self._open(match.group(9), pos)
            elif kind == 10:
                self.parts.append("${")
                self._push("}", pos)
            elif kind == 11:
                name = match.group(11)
                if name != "$" or text[pos : pos + 1] != '"':
                    self.parts.append(name)
                    self.has = True
            elif kind == 12:
                self._quote(_ESCAPE.sub(_escaped, match.group(12)))
            elif kind == 13:
                pos = self._paren(pos)
            elif kind == 14:
                self._close_paren()
            elif kind == 15:
                self.has = self.quoted = True
                self._push('"', pos)
            else:
                self.out.odd = "a quote without its end"
                self._quote(text[pos:])
                pos = size
        if self.tokens < 0 or len(self.stack) > MAX_OPEN:
            self.out.cut = True
        self._finish_all()

    # Words

    def _quote(self, text: str) -> None:
        self.parts.append(text)
        self.has = self.quoted = True

    def _end_word(self) -> None:
        parts = self.parts
        word = parts[0] if len(parts) == 1 else "".join(parts)
        parts.clear()
        self.has = False
        sign = self.pending
        if not sign:
            words = self.command.words
            if not self.quoted:
                if word == "[[" and not any(one not in _LEADING for one in words):
                    self.test = True
                elif word == "]]":
                    self.test = False
            words.append(word)
        else:
            self.pending = ""
            if sign in ("<<", "<<-"):
                self.documents.append((word, sign == "<<-", self.quoted, self.command, self.number))
            elif sign == "<<<" or (sign == "<" and word in self.command.texts):
                _feeds(self.command, self.number, self.command.texts.get(word, word))
            elif sign == "<&" and (number := word.removesuffix("-")).isdecimal():
                self.command.redirects.append(("<", f"/dev/fd/{number}"))
            elif sign[-1] != "&" or not (word.isdecimal() or word == "-"):
                self.command.redirects.append((sign, word))
        self.quoted = False

    def _redirect(self, sign: str) -> None:
        if self.test:
            self.parts.append(sign)
            self.has = True
            return
        self.number = ""
        if self.has:
            if len(self.parts) == 1 and self.parts[0].isdecimal() and not self.quoted:
                self.number = self.parts[0].lstrip("0")
                self.parts.clear()  # the number of a file, as in "2>"
                self.has = False
            else:
                self._end_word()
        self.pending = sign

    # Commands

    def _separate(self, sign: str) -> None:
        if self.has:
            self._end_word()
        if self.test:
            self.command.words.append(sign)
            return
        if sign in ("|", ";;") and not self._case_end() and (self.pattern or self._case_header()):
            self.command.words.clear()
            return
        if sign[:2] == ";;" or sign == ";&":
            self.pattern = self.cases > 0
        self._finish(sign)
        if sign in ("|", "|&"):
            self.piped = self.last

    def _case_header(self) -> bool:
        words = self.command.words
        if "case" in words[:4] and "in" in words:
            self.cases += 1
            self.pattern = True
            return True
        return False

    def _case_end(self) -> bool:
        """Take an ``esac`` that stands where a pattern might: what follows it is not the end of a pattern."""
        if not self.pattern or self.command.words != ["esac"]:
            return False
        self.command.words.clear()
        self.cases = max(0, self.cases - 1)
        self.pattern = False
        return True

    def _finish(self, sign: str) -> None:
        """End the command that is being read, if there is one."""
        if self.has:
            self._end_word()
        command = self.command
        words = command.words
        if words:
            self._keywords(words)
        if words or command.redirects or command.stdin is not None:
            command.end = sign
            command.piped = self.piped
            if self.functions:
                command.inside = self.functions[-1]
            self.out.steps.append(command)
            self.last = command
            self.command = Command()
        elif self.documents and self.documents[-1][3] is command:
            self.out.steps.append(command)
            self.last = command
            self.command = Command()
        self.piped = None
        self.pending = ""

    def _keywords(self, words: list[str]) -> None:
        """Take the words of the shell's own grammar off the front of a command."""
        at = 0
        while at < len(words) and words[at] in _LEADING:
            if words[at] == "coproc":
                self.piped = _NOBODY  # it reads what the line says to it later
            elif words[at] == "{":
                self._brace()
            elif words[at] == "then" or (words[at] == "do" and words[at + 1 : at + 2] != ["{"]):
                self.bodies += 1
            elif words[at] == "elif":
                self.bodies -= 1
            at += 1
        del words[:at]
        first = words[0] if words else ""
        if first in _TESTS or first[:2] == "((":
            at = _end_of_test(words)
            if words[at : at + 1] and words[at] in _BODIES:  # a body needs no separator behind brackets
                del words[:at]
                self._keywords(words)
        elif first == "case":
            self.cases += 1
            self.pattern = True
            words.clear()
        elif first in _CLOSING:
            if first == "esac":
                self.cases = max(0, self.cases - 1)
                self.pattern = False
            elif first != "}":
                self.bodies -= 1
            elif self.braces and self.braces.pop() and self.functions:
                self.functions.pop()
            words.clear()
        elif first == "function" and len(words) > 1:
            self.defined = words[1]
            del words[:2]
            if words[:1] == ["{"]:
                self._brace()
                del words[:1]

    def _brace(self) -> None:
        self.braces.append(self.defined)
        if self.defined:
            self.functions.append(self.defined)
            self.defined = ""

    # What opens and closes

    def _push(self, closer: str, start: int) -> _Frame:
        frame = _Frame(closer, start)
        self.stack.append(frame)
        return frame

    def _open(self, sign: str, pos: int) -> int:
        """Open a substitution in a word."""
        if sign == "`":
            if any(frame.closer == "`" for frame in self.stack[-3:]):
                self._close("`")
                return pos
            self._begin("`", len(self.out.steps))
        elif sign == "$((":
            if self.sums <= 0:
                self._begin("$)", len(self.out.steps))
                self._begin(")", len(self.out.steps))
                return pos
            self._push("))", pos)
            self.parts.append("$((")
        else:
            if sign[0] != "$" and self.has:
                self._end_word()
            reader = self.command
            self._begin("$)" if sign[0] != "<" else "<)", len(self.out.steps))
            if sign[0] == ">":
                self.piped = reader
        return pos

    def _begin(self, closer: str, start: int) -> None:
        """Set the current command aside and begin a list of commands."""
        frame = self._push(closer, start)
        frame.kept = (
            self.command, self.parts, self.has, self.quoted, self.pending, self.test, self.cases, self.pattern,
            self.piped,
        )  # fmt: skip
        self.command, self.parts, self.piped = Command(), [], self.piped if closer == ")" else None
        self.has = self.quoted = self.test = self.pattern = False
        self.pending = ""
        self.cases = 0
        self.out.steps.append(True)

    def _close(self, closer: str) -> None:
        """End a list of commands and go on with what stood around it."""
        self._finish(closer)
        if self.cases:
            self.out.odd = self.out.odd or _NEVER_CLOSED
        while self.stack[-1].closer != closer:
            self.stack.pop()
        frame = self.stack.pop()
        steps = self.out.steps
        inner = [one for one in steps[frame.start : frame.start + 16] if type(one) is Command]
        steps.append(False)
        (
            self.command, self.parts, self.has, self.quoted, self.pending, self.test, self.cases, self.pattern,
            self.piped,
        ) = frame.kept  # fmt: skip
        if closer != ")":
            said = _output(inner)
            if closer == "<)" and said[:2] != "$(":
                name = f"/dev/fd/{63 + len(self.command.texts)}"
                self.command.texts[name], said = said, name
            self.parts.append(said)
            self.has = True

    def _paren(self, pos: int) -> int:
        if self.test or (self.pattern and not self._case_end()):
            return pos
        if not self.has and self._case_header():  # the bracket that may stand before a pattern
            self.command.words.clear()
            return pos
        if self.has:
            last = self.parts[-1]
            if _LIST_VALUE.search("".join(self.parts[-2:])[-256:]) or (last and last[-1] in "?*+@!"):
                self._push(")list", pos)
                return pos
            match = _NO_PARAMS.match(self.text, pos)
            self._end_word()
            if match:
                return self._define(match.end())
            self.out.odd = "a parenthesis where none can be"
        elif self.command.words[-1:] == ["for"] and self.text[pos : pos + 1] == "(":
            self._push("))", pos + 1)
            self.parts.append("((")
            return pos + 1
        elif any(one not in _LEADING for one in self.command.words):
            match = _NO_PARAMS.match(self.text, pos)
            if match:
                return self._define(match.end())
            self.out.odd = "a parenthesis where none can be"
        elif self.text[pos : pos + 1] == "(" and self.sums > 0:
            self._push("))", pos + 1)
            self.parts.append("((")
            return pos + 1
        if all(one in _LEADING for one in self.command.words):
            self._keywords(self.command.words)
        self._begin(")", len(self.out.steps))
        return pos

    def _define(self, pos: int) -> int:
        words = self.command.words
        if len(words) - sum(one in _LEADING or one == "function" for one in words) == 1:
            self.defined = words[-1]
            words.clear()
        else:
            self.out.odd = "a parenthesis where none can be"
        return pos

    def _close_paren(self) -> None:
        if self.test:
            return
        if self.has:
            self._end_word()
        if not self._case_end() and (self.pattern or self._case_header()):
            self.command.words.clear()
            self.pattern = False
            return
        closer = self.stack[-1].closer if self.stack else ""
        if closer in (")", "$)", "<)"):
            self._close(closer)
        else:
            self.out.odd = "a parenthesis that was never opened"
            self._finish(";")

    # Quotes, here-documents, ${...} and sums: parts of a word in which commands may hide

    def _embedded(self, closer: str, pos: int) -> int:
        match = _EMBEDDED[closer].match(self.text, pos)
        if match is None:  # the last alternative takes any character
            return len(self.text)
        kind = match.lastindex
        end = match.end()
        if kind == 1:
            self.parts.append(match.group(1))
        elif kind == 2:
            if closer == "))" and self.sums > 0 and self._is_command(pos):
                return self._no_sum()
            self.stack.pop()
            if closer == "}":
                self.parts.append("}")
            elif closer == "))":
                self.parts.append("))")
            else:
                end = pos + 1  # of two brackets the first ends the list, the second what is around it
            self.has = True
        elif kind == 3:
            char = match.group(3)
            if char != "\n":
                self.parts.append(char if char in '"\\$`' else "\\" + char)
        elif kind == 4:
            self.has = True
            return self._open(match.group(4), end)
        elif kind == 5:
            self.parts.append("${")
            self._push("}", end)
        else:
            return self._other(closer, match.group(6), end)
        return end

    def _other(self, closer: str, char: str, pos: int) -> int:
        if closer == "}" and char == '"':
            self._push('"', pos)
        elif closer in ("))", ")list") and char == "(":
            self._push(")list", pos)
        elif closer == ")list" and char == ")":
            self.stack.pop()
            self.has = True
        elif closer == "))" and char == ")":
            return self._no_sum()
        elif closer == ")list" and char == '"':
            self._push('"', pos)
        else:
            self.parts.append(char)
        return pos

    def _is_command(self, pos: int) -> bool:
        """Return True if ``((rm -rf x))`` holds no sum: some shells run it."""
        start = self.stack[-1].start
        return self.text[start - 3 : start] != "$((" and _ADJACENT.search(self.text, start, pos) is not None

    def _no_sum(self) -> int:
        """``$((`` that does not end in ``))`` was a substitution with a subshell: reads it again as that."""
        frame = self.stack.pop()
        self.sums -= 1
        opening = ""
        while self.parts and opening not in ("$((", "(("):
            opening = self.parts.pop()
        self._begin("$)" if opening == "$((" else ")", len(self.out.steps))
        self._begin(")", len(self.out.steps))
        return frame.start

    def _read_documents(self, pos: int) -> int:
        """Read the bodies of the here-documents that the line before ``pos`` announced."""
        text = self.text
        for delimiter, tabs, quoted, command, number in self.documents:
            body, pos, ended = _document(text, pos, delimiter, tabs=tabs)
            _feeds(command, number, body)
            if not ended:
                self.out.odd = "a here-document without its end"
            if not quoted and ("$(" in body or "`" in body):
                if self.depth >= MAX_HERE:
                    self.out.cut = True
                    continue
                child = _Parser(body, self.tokens, self.depth + 1)
                child.run("here")
                self.tokens = child.tokens
                self.out.steps += child.out.steps
                self.out.odd = self.out.odd or child.out.odd
                self.out.cut = self.out.cut or child.out.cut
        self.documents.clear()
        return pos

    def _finish_all(self) -> None:
        while self.stack:
            frame = self.stack[-1]
            if frame.closer == "here":
                self.stack.pop()
                self.parts.clear()
                self.has = False
            elif frame.closer in ("`", "$)", "<)", ")"):
                self.out.odd = self.out.odd or _NEVER_CLOSED
                self._close(frame.closer)
            else:
                self.out.odd = self.out.odd or _NEVER_CLOSED
                self.stack.pop()
                self.has = self.has or bool(self.parts)
        self._finish("")
        if self.cases or self.bodies > 0:
            self.out.odd = self.out.odd or _NEVER_CLOSED
        if self.documents:
            self.out.odd = self.out.odd or "a here-document without its end"
        if self.defined:
            self.out.odd = self.out.odd or "a function without a body"


def _feeds(command: Command, number: str, text: str) -> None:
    """Give a command a text to read, as its standard input or at the descriptor of a number."""
    if number:
        command.texts[f"/dev/fd/{number}"] = text
    else:
        command.stdin = text


def _end_of_test(words: list[str]) -> int:
    """Return how many words a sum, a ``[[`` or the head of a ``for ((`` takes at the beginning of a command."""
    if words[0] == "[[":
        return words.index("]]") + 1 if "]]" in words else len(words)
    if words[0] == "for":
        return 2 if words[1:2] and words[1][:2] == "((" else len(words)
    return 1


_EMBEDDED: Final = {'"': _QUOTED, "here": _HERE, "}": _PARAM, "))": _SUM, ")list": _SUM}


def _escaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else ""
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _NAMED_ESCAPES.get(code, code)


def _document(text: str, pos: int, delimiter: str, *, tabs: bool) -> tuple[str, int, bool]:
    """Return the body of a here-document, where it ends, and whether it does end."""
    size = len(delimiter)
    line = f"{delimiter}\n"
    if not tabs and not text.startswith(line, pos):
        # Most have no tabs and one end: it is found in one go, however often the word stands elsewhere.
        at = text.find(f"\n{line}", pos) + 1
        if not at:
            at = len(text) - size if text.endswith(f"\n{delimiter}") else -1
        if at < pos:
            return text[pos:], len(text), False
        return text[pos:at], min(at + size + 1, len(text)), True
    at = pos
    while True:
        found = text.find(delimiter, at)
        if found < 0:
            return text[pos:], len(text), False
        start = found
        if tabs:
            while start > pos and text[start - 1] == "\t":
                start -= 1
        end = found + size
        if (start == pos or text[start - 1] == "\n") and (end == len(text) or text[end] == "\n"):
            body = text[pos:start]
            return body, min(end + 1, len(text)), True
        at = max(end, at + 1)


def _output(inner: list[Command]) -> str:
    """Return what a substitution puts in its place: its output where that is plain, else what it runs."""
    if len(inner) == 1 and not inner[0].redirects:
        words = inner[0].words
        first = words[0] if words else ""
        if first in _LITERAL:
            if first == "echo":
                said = " ".join(one for one in words[1:] if one not in ("-n", "-e", "-ne", "-en"))
                return _ESCAPE.sub(_escaped, said) if "\\" in said else said
            if first == "printf" and len(words) > 1 and "%" not in words[1]:
                return _ESCAPE.sub(_escaped, words[1])
            if first == "cat" and len(words) == 1 and inner[0].stdin is not None:
                return inner[0].stdin.rstrip("\n")
        elif first == "pwd" or (first == "git" and "--show-toplevel" in words):
            return "$PWD"
        elif first == "mktemp":
            return "$TMPDIR/mktemp"
    said = " | ".join(" ".join(one.words)[:200] for one in inner[:4])
    if len(inner) == 1 and not said and inner[0].redirects[:1] and inner[0].redirects[0][0] == "<":
        said = f"cat {inner[0].redirects[0][1][:200]}"
    return f"$({said})"
