"""The console's pages and forms as an ASGI application."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router

from callosum import __version__, wire
from callosum.console.access import COOKIE, SESSION_SECONDS, STREAMS, Access, ConsoleSession, NoAccess, ShownApproval
from callosum.console.lanes import Box, boxes
from callosum.console.live import Live, Read, tag_of
from callosum.console.render import BODY, CSRF, LIVE, render
from callosum.console.views import Views, Waiting
from callosum.errors import CallosumError, ConfigError, StoreError
from callosum.gate.check import check_name
from callosum.model import DEFAULT_NAMESPACE, MAX_KEY, SECOND, GateRequest, Report
from callosum.standing import LASTS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from callosum.rules import StandingApproval

logger = logging.getLogger("callosum")

PATH: Final = "/console"
CHANNEL: Final = "console"
"""Channel of an answer, for the journal."""
_FORM: Final = 16_384
"""Maximum size of a form's body, in bytes."""
_SPANS: Final = (300, 900, 3600, 4 * 3600, 24 * 3600)
_RATES: Final = (24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600)
"""Spans over which conflicts are counted, in seconds."""
_CARDS: Final = 2000
"""Maximum number of cards that are cached as HTML."""
_LONGEST: Final = 24 * 3600.0
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types callosum"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "": ("Waiting", "waiting"),
    "sessions": ("Sessions", "sessions"),
    "lanes": ("Lanes", "lanes"),
    "conflicts": ("Conflicts", "conflicts"),
    "report": ("Report", "report"),
}
"""Title of each page, and the part of it that may be kept current."""
_STILL: Final = frozenset({"report"})
"""Pages over so long a span that they are rendered once, when they are opened."""
_HEAVY: Final = _STILL | {"conflicts"}
"""Pages that may read days of the journal; few of them are rendered at once."""

Admit = Callable[[str, Any], ConsoleSession]
"""Returns the console session for a token's secret, given a request's scope. Raises ``NoAccess``."""
Ask = Callable[[GateRequest[Report]], Awaitable[Report]]
"""Makes the gate carry out a person's answer."""
Stand = Callable[[str, "StandingApproval", str, str], Awaitable[None]]
"""Gives (``approved``) or ends (``revoked``) a standing approval for a person, and journals it in a namespace."""


class ConsoleRefused(Exception):
    """A page that is refused, and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Console:
    """The console of one server.

    ``views`` returns the pages of a namespace, ``read`` runs a function in a thread, ``ask`` carries out an answer,
    ``stand`` gives or revokes a standing approval. ``admit`` accepts people with a token; without it only a link opens
    the console.
    """

    def __init__(
        self,
        access: Access,
        views: Callable[[str], Views],
        read: Read,
        ask: Ask,
        stand: Stand,
        admit: Admit | None = None,
    ) -> None:
        self.access = access
        self._views, self._read, self._ask, self._stand, self._admit = views, read, ask, stand, admit
        self._live: dict[str, Live] = {}
        self._heavy = asyncio.Semaphore(2)
        self._cards: dict[tuple[str, bool, str], Markup] = {}
        self._static = {name: files(__package__).joinpath("static", name).read_bytes() for name in _STATIC}
        get = ["GET"]
        post = ["POST"]
        self._router = Router(
            [
                Route(f"{PATH}/static/{{name}}", self._file, methods=get),
                Route(f"{PATH}/open", self._door, methods=get),
                Route(f"{PATH}/open", self._open, methods=post),
                Route(f"{PATH}/terminal", self._terminal, methods=get),
                Route(f"{PATH}/close", self._guarded(self._close), methods=post),
                Route(f"{PATH}/answer", self._guarded(self._answer), methods=post),
                Route(f"{PATH}/revoke", self._guarded(self._revoke), methods=post),
                Route(f"{PATH}/live", self._guarded(self._follow), methods=get),
                Route(f"{PATH}/key", self._guarded(self._key), methods=get),
                Route(f"{PATH}/search", self._guarded(self._search), methods=get),
                Route(f"{PATH}/action/{{id}}", self._guarded(self._action), methods=get),
                *(
                    Route(f"{PATH}/{name}".rstrip("/"), self._guarded(partial(self._page, name)), methods=get)
                    for name in _PAGES
                ),
            ],
            default=self._nowhere,
        )

    @property
    def viewers(self) -> int:
        """Return the number of open pages."""
        return sum(live.viewers for live in self._live.values())

    async def close(self) -> None:
        """End the tasks that keep pages current."""
        for live in self._live.values():
            await live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._router(scope, receive, send)
        except Exception:
            logger.exception("%s %s failed", scope.get("method"), scope["path"])
            raise

    async def _nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _html("error.html", 404, why="There is no such page.")(scope, receive, send)

    # --- Entering ---

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._static.get(name)
        if content is None:
            return _html("error.html", 404, why="There is no such page.")
        headers = {**_HEADERS, "Cache-Control": "max-age=3600" if request.query_params.get("v") else "no-store"}
        return Response(content, headers=headers, media_type=_STATIC[name])

    async def _door(self, request: Request) -> Response:
        if self._admit is not None:
            return _html("login.html")
        return _html("open.html", link=request.query_params.get("link", ""))

    async def _open(self, request: Request) -> Response:
        try:
            _same_origin(request)
            form = await _form(request)
            if self._admit is not None:
                value = self.access.admit(self._admit(form.get("token", "").strip(), request.scope))
            else:
                link = await self._read(partial(self.access.spend, form.get("link", "")))
                value = self.access.let_in(link)
        except (NoAccess, ConsoleRefused) as error:
            return _html("error.html", 403, why=_sentence(error))
        answer = RedirectResponse(PATH, 303, _HEADERS)
        answer.set_cookie(
            COOKIE,
            value,
            max_age=int(SESSION_SECONDS),
            path=PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _terminal(self, request: Request) -> Response:
        """Stay connected to the terminal that made a link: it shows the codes, and its sessions end with it."""
        secret = request.headers.get("x-callosum-terminal", "")
        try:
            name, lines = self.access.join(secret)
        except NoAccess as error:
            return Response(str(error), 403, _HEADERS, "text/plain")

        async def shown() -> AsyncGenerator[bytes]:
            yield b"\n"
            while True:
                yield (await lines.get()).encode() + b"\n"

        return _Streamed(shown(), "text/plain; charset=utf-8", partial(self.access.leave, name))

    def _guarded(self, page: Callable[[Request, ConsoleSession, Views], Awaitable[Response]]) -> Any:
        """Return a page for a session, of a namespace that it may see."""

        async def endpoint(request: Request) -> Response:
            session = self.access.session(request.cookies.get(COOKIE))
            if session is None:
                if self._admit is not None:
                    return RedirectResponse(f"{PATH}/open", 303, _HEADERS)
                return _html("error.html", 403, why="A link opens this page: run callosum console in a terminal.")
            try:
                namespace = request.query_params.get("namespace", DEFAULT_NAMESPACE)
                check_name(namespace, "namespace")
                session.check_sees(namespace)
                if request.method == "POST":
                    _same_origin(request)
                return await page(request, session, self._views(namespace))
            except (ConsoleRefused, NoAccess, ConfigError) as error:
                status = 403 if isinstance(error, NoAccess) else getattr(error, "status", 400)
                return _html("error.html", status, why=_sentence(error))
            except StoreError as error:
                return _html("error.html", 503, why=f"The store cannot be read now: {error}")

        return endpoint

    async def _close(self, request: Request, session: ConsoleSession, _views: Views) -> Response:
        _checked(await _form(request), session)
        self.access.end(request.cookies[COOKIE])
        return _html("error.html", why="The console is closed here. Run callosum console to open it again.")

    # --- Pages ---

    async def _page(self, name: str, request: Request, session: ConsoleSession, views: Views) -> Response:
        show = self._parts(name, request, session, views)
        title, _ = _PAGES[name]
        frame = _framed(session, views, "page.html", title=title, page=name, follows=name not in _STILL)

        async def body() -> tuple[str, str]:
            await self._read(views.update)
            async with self._heavy if name in _HEAVY else nullcontext():
                parts = await self._read(show)
            live = urlencode({"page": name, "tag": tag_of(parts), **_kept(request)})
            return "".join(parts.values()).replace(CSRF, session.csrf), live

        return _Streamed(_in_frame(frame, body, "The store cannot be read now"), "text/html; charset=utf-8")

    def _parts(
        self, name: str, request: Request, session: ConsoleSession, views: Views
    ) -> Callable[[], Mapping[str, str]]:
        """Return the function that renders the parts of a page that are kept current."""
        _, part = _PAGES[name]
        answers = session.answers
        arguments: Mapping[str, Any] = {}
        if name == "conflicts":
            wanted = _number(request, "span", _RATES[0])
            arguments = {"span": int(wanted) if wanted in _RATES else _RATES[0]}
        if name == "lanes":
            span, end = _number(request, "span", 900.0), _number(request, "end", 0.0)
            span = min(max(span, 1.0), _LONGEST)
            arguments = {"span": span, "end": end}

        def show() -> Mapping[str, str]:
            readers: Mapping[str, Callable[..., Mapping[str, Any]]] = {
                "": views.waiting,
                "sessions": views.sessions,
                "lanes": views.lanes,
                "conflicts": views.conflicts,
                "report": views.report,
            }
            data = readers[name](**arguments)
            link = partial(_link, views.namespace)
            extra = {"answers": answers, "link": link, "spans": _RATES if name == "conflicts" else _SPANS}
            if not name:
                extra["card"] = partial(self._card, views.namespace, answers)
            if name == "lanes":
                near = partial(_zoomed, link, data["span"])
                extra["boxes"] = boxes(data["lanes"], link("action/0"), near)
            return {part: render(f"parts/{part}.html", {**extra, **data})}

        return show

    def _card(self, namespace: str, answers: bool, waiting: Waiting) -> Markup:
        """Return a waiting call as HTML. It is rendered once, because what is shown of it never changes."""
        cache_key = (waiting.digest, answers, namespace)
        card = self._cards.get(cache_key)
        if card is None:
            data = {"one": waiting, "answers": answers, "link": partial(_link, namespace)}
            card = self._cards[cache_key] = Markup(render("parts/card.html", data))  # noqa: S704 - rendered by a template
            if len(self._cards) > _CARDS:
                self._cards.pop(next(iter(self._cards)), None)
        return card

    async def _follow(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        name = request.query_params.get("page", "")
        if name not in _PAGES or name in _STILL:
            raise ConsoleRefused(404, "there is no such page")
        if session.streams >= STREAMS:
            raise ConsoleRefused(429, "too many pages of this session are open: close some")
        live = self._live.get(views.namespace)
        if live is None:
            live = self._live[views.namespace] = Live(self._read, views.update)
        known = urlencode({"page": name, "answers": session.answers, **_kept(request)})
        show = self._parts(name, request, session, views)
        cookie = request.cookies.get(COOKIE)
        token = session.csrf.encode()

        async def events() -> AsyncGenerator[bytes]:
            async with aclosing(live.follow(known, show, request.query_params.get("tag", ""))) as found:
                async for event in found:
                    if self.access.session(cookie) is None:
                        yield b"event: closed\ndata: {}\n\n"
                        return
                    yield event.replace(CSRF.encode(), token)

        def ended() -> None:
            session.streams -= 1
            if not live.viewers and self._live.get(views.namespace) is live:
                del self._live[views.namespace]

        session.streams += 1
        return _Streamed(events(), "text/event-stream", ended)

    async def _key(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        name = request.query_params.get("name", "")
        if not 0 < len(name) <= MAX_KEY:
            raise ConsoleRefused(400, "expected the name of a key")
        found = await self._read(partial(views.key, name))
        return _page(session, views, "key.html", title=f"Key {name}", **found)

    async def _action(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        await self._read(views.update)
        found = await self._read(partial(views.action, _id(request.path_params["id"])))
        if found is None:
            raise ConsoleRefused(404, "this namespace has no such action, or it was removed")
        return _page(session, views, "action.html", title="Action", **found)

    async def _search(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        async with self._heavy:
            found = await self._read(partial(views.search, request.query_params.get("q", "")[:500]))
        return _page(session, views, "search.html", title="Search", **found)

    # --- Answers ---

    async def _answer(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        """Take an answer: one request shows what it would do, a second does it. Later and refuse need only one."""
        form = _checked(await _form(request), session)
        if not session.answers:
            raise ConsoleRefused(403, "you may read here, but not answer")
        say = form.get("say", "")
        id = _id(form.get("id", ""))
        await self._read(views.update)
        waiting: Waiting | None = await self._read(partial(views.find, id))
        if waiting is None:
            return _page(session, views, "gone.html", title="Answered already", id=id)
        if form.get("digest") != waiting.digest:
            return _page(
                session, views, "answer.html", title="The call has changed", one=waiting, say="", why="changed"
            )
        if say == "later":
            views.put_off(id)
            return _back(views)
        if say not in waiting.says:
            raise ConsoleRefused(400, "this call does not take that answer")
        if say == "like":
            return await self._like(form, request, session, views, waiting)
        meant = f"{id} {waiting.digest} {say}"
        if say != "deny" and not form.get("sure"):
            if waiting.tier >= 4:
                what = f"{waiting.says[say]} {waiting.tool} of {waiting.session}: {waiting.what}"
                try:
                    self.access.ask(session, meant, what)
                except NoAccess as error:
                    why = _sentence(error)
                    return _page(session, views, "answer.html", title="Not asked", one=waiting, say="", why=why)
            return _page(session, views, "answer.html", title=waiting.says[say], one=waiting, say=say, why="")
        if waiting.tier >= 4 and say != "deny":
            try:
                self.access.confirm(session, meant, form.get("code", ""))
            except NoAccess as error:
                again, why = say if session.code_request else "", _sentence(error)
                return _page(session, views, "answer.html", title="Not confirmed", one=waiting, say=again, why=why)
        by = _by(request, session)
        note = form.get("note", "").strip()
        try:
            report = await self._ask(_request(say, id, by, note, views.namespace))
        except CallosumError as error:
            raise ConsoleRefused(409, str(error)) from None
        if not report.ok:
            raise ConsoleRefused(409, report.note or "nothing was changed")
        return _back(views)

    # --- Standing approvals ---

    async def _like(
        self, form: Mapping[str, str], request: Request, session: ConsoleSession, views: Views, waiting: Waiting
    ) -> Response:
        """Show a standing approval and what it would have changed, or give the one that was shown."""
        _sees_all(session)
        like = await self._read(partial(views.like, waiting.id))
        if like is None:
            raise ConsoleRefused(
                409, "calls like it cannot be approved any more: its rule has changed, or it was answered"
            )
        names = list(like.choices)
        kept = frozenset(name for at, name in enumerate(names) if "chosen" not in form or f"keep{at}" in form)
        shown = session.shown_approval
        if (
            "sure" in form
            and shown is not None
            and hmac.compare_digest(shown.seal.encode(), form.get("seal", "").encode())
        ):
            approval = like.approval(kept, shown.approval.by, shown.approval.at, LASTS)
            if approval == shown.approval and shown.digest == waiting.digest:
                session.shown_approval = None
                try:
                    await self._stand("approved", approval, _by(request, session), views.namespace)
                except CallosumError as error:
                    raise ConsoleRefused(409, str(error)) from None
                return _back(views, "conflicts")
        approval = like.approval(kept, _by(request, session), time.time(), LASTS)
        frame = _framed(session, views, "page.html", title="Approve similar calls")

        async def body() -> tuple[str, str]:
            async with self._heavy:
                trial = await self._read(partial(views.try_standing, approval))
            seal = hashlib.sha256(msgspec.json.encode((waiting.digest, approval, trial))).hexdigest()
            session.shown_approval = ShownApproval(seal, waiting.digest, approval)
            told = {"one": waiting, "like": like, "kept": kept, "approval": approval, "trial": trial, "seal": seal}
            told |= {"changed": "sure" in form, "link": partial(_link, views.namespace)}
            shown = await self._read(partial(render, "parts/like.html", told))
            return shown.replace(CSRF, session.csrf), ""

        return _Streamed(_in_frame(frame, body, "The recorded calls cannot be tried now"), "text/html; charset=utf-8")

    async def _revoke(self, request: Request, session: ConsoleSession, views: Views) -> Response:
        form = _checked(await _form(request), session)
        if not session.answers:
            raise ConsoleRefused(403, "you may read here, but not answer")
        _sees_all(session)
        standing = await self._read(views.standing)
        found = next((one.approval for one in standing if str(one.approval.id) == form.get("id")), None)
        if found is None:
            raise ConsoleRefused(409, "this standing approval has ended, or was revoked already")
        try:
            await self._stand("revoked", found, _by(request, session), views.namespace)
        except CallosumError as error:
            raise ConsoleRefused(409, str(error)) from None
        return _back(views, "conflicts")


def _sees_all(session: ConsoleSession) -> None:
    """Refuse a session that is limited to some namespaces: a standing approval counts in all."""
    if session.namespaces is not None:
        raise ConsoleRefused(403, "a standing approval counts in every namespace, and your token is limited to some")


def _by(request: Request, session: ConsoleSession) -> str:
    """Return the person's name, with the address if the answer comes from another device."""
    client = request.client.host if request.client is not None else ""
    return f"{session.by} at {client}" if client not in ("", "127.0.0.1", "::1") else session.by


def _request(say: str, id: int, by: str, note: str, namespace: str) -> GateRequest[Report]:
    if say in ("happened", "not"):
        return wire.Resolve(id=id, happened=say == "happened", by=by, note=note, namespace=namespace)
    kind = wire.Approve if say == "approve" else wire.Deny
    return kind(id=id, by=by, channel=CHANNEL, note=note, namespace=namespace)


def _same_origin(request: Request) -> None:
    """Refuse a form of another page."""
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    site = request.headers.get("sec-fetch-site", "same-origin")
    if request.headers.get("origin", own) != own or site != "same-origin":
        raise ConsoleRefused(403, "this form belongs to another page: load the page again")


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


async def _in_frame(frame: str, body: Callable[[], Awaitable[tuple[str, str]]], cannot: str) -> AsyncGenerator[bytes]:
    """Yield a page's head at once, and its body and the address that keeps it current once they have been read."""
    head, _, foot = frame.partition(BODY)
    yield head.encode()
    try:
        shown, live = await body()
    except CallosumError as error:
        shown, live = f'<p role="alert">{escape(f"{cannot}: {error}")}</p>', LIVE
    yield (shown + foot.replace(LIVE, escape(live))).encode()


class _Streamed(Response):
    """A response that ends when its reader leaves or its content is complete; then ``ended`` is called, once."""

    def __init__(
        self, pieces: AsyncGenerator[bytes], media_type: str, ended: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(headers=_HEADERS, media_type=media_type)
        del self.headers["content-length"]
        self._pieces, self._ended = pieces, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send the response."""
        told: list[asyncio.Future[None]] = []
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            told += [asyncio.ensure_future(self._feed(send)), asyncio.ensure_future(_gone(receive))]
            await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in told:
                task.cancel()
            fed = await asyncio.gather(*told, return_exceptions=True)
            await self._pieces.aclose()
            self._ended()
        if isinstance(fed[0], Exception):
            raise fed[0]

    async def _feed(self, send: Send) -> None:
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Return once the browser has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM:
            raise ConsoleRefused(413, "the form is too large")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=30))
    except ValueError:
        raise ConsoleRefused(400, "the form cannot be read") from None


def _checked(form: dict[str, str], session: ConsoleSession) -> dict[str, str]:
    """Return the form if it belongs to a page of this session."""
    if not hmac.compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
        raise ConsoleRefused(403, "this form belongs to another session: load the page again")
    return form


def _id(text: str) -> int:
    """Return the id of an entry; for any other text 0, which no entry has."""
    id = int(text) if text.isdecimal() and len(text) < 20 else 0
    return id if id < 2**63 else 0


def _kept(request: Request) -> dict[str, str]:
    """Return the parts of the address that identify the page."""
    return {name: request.query_params[name] for name in ("namespace", "span", "end") if name in request.query_params}


def _number(request: Request, name: str, default: float) -> float:
    try:
        number = float(request.query_params.get(name, default))
    except ValueError:
        raise ConsoleRefused(400, f"{name} is not a number") from None
    if not 0 <= number < 1e11:
        raise ConsoleRefused(400, f"{name} is out of range")
    return number


def _page(session: ConsoleSession, views: Views, template: str, **shown: Any) -> Response:
    return Response(_framed(session, views, template, **shown), headers=_HEADERS, media_type="text/html; charset=utf-8")


def _framed(session: ConsoleSession, views: Views, template: str, **shown: Any) -> str:
    nav = [(name, title) for name, (title, _) in _PAGES.items()]
    common = {
        "nav": nav,
        "page": None,
        "follows": False,
        "by": session.by,
        "answers": session.answers,
        "namespace": views.namespace,
        "version": __version__,
        "link": partial(_link, views.namespace),
        "now": time.time(),
    }
    return render(template, {**common, **shown}).replace(CSRF, session.csrf)


def _link(namespace: str, path: str, **query: object) -> str:
    said = {name: str(value) for name, value in query.items()}
    if namespace != DEFAULT_NAMESPACE:
        said["namespace"] = namespace
    return f"{PATH}/{path}".rstrip("/") + (f"?{urlencode(said, quote_via=quote)}" if said else "")


def _zoomed(link: Callable[..., str], span: float, box: Box) -> str:
    """Return the address for a tenth of the span, around the first of a bar's actions."""
    nearer = max(span / 10, 1)
    return link("lanes", span=nearer, end=box.first.begin / SECOND + nearer / 2)


def _back(views: Views, page: str = "") -> Response:
    return RedirectResponse(_link(views.namespace, page), 303, _HEADERS)


def _html(template: str, status: int = 200, **shown: Any) -> Response:
    return Response(render(template, {"version": __version__, **shown}), status, _HEADERS, "text/html; charset=utf-8")
