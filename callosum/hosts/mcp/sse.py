"""Speak the HTTP+SSE transport of 2024: one stream for all of the server's messages, and a URL to post to.

::

    GET url ── event: endpoint ── data: /messages?session=7       where to post, on the same server
            ── event: message  ── data: {...}                      answers, requests and notifications of its own
    POST /messages?session=7 ── 202                                 the answer comes on the stream

The stream is the session. When it ends, the outcome of the pending requests is unknown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import urllib3

from callosum.client.errors import BadResponse
from callosum.client.sse import Parser

if TYPE_CHECKING:
    from collections.abc import Generator

logger = logging.getLogger("callosum")

ENDPOINT_SECONDS: Final = 30.0
"""Seconds that the server may take to say where to post."""


class SseNotSupported(Exception):
    """Report that the server does not speak this transport, and what it did instead."""


class SseSession:
    """Hold an open stream. ``heard`` receives each message, and ``lost`` is called once when the stream ends.

    Raises: ``SseNotSupported`` or urllib3's errors if the stream cannot be opened.
    """

    def __init__(
        self,
        pool: urllib3.PoolManager,
        url: str,
        headers: Mapping[str, str],
        heard: Callable[[bytes], object],
        lost: Callable[[SseSession], object],
    ) -> None:
        self._pool, self._headers = pool, dict(headers)
        self._heard, self._lost = heard, lost
        self.over = threading.Event()
        asked = {**self._headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        self._response = pool.request("GET", url, headers=asked, preload_content=False, redirect=False, retries=False)
        self._events = self._read()
        # a server that keeps sending but never says where to post would block without end
        hurry = threading.Timer(ENDPOINT_SECONDS, self._shut)
        hurry.start()
        try:
            self._url = self._endpoint(url)
        except BaseException:
            self.close()
            raise
        finally:
            hurry.cancel()
        self._thread = threading.Thread(target=self._listen, name="callosum-sse", daemon=True)
        self._thread.start()

    def _endpoint(self, url: str) -> str:
        kind = self._response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if self._response.status != 200 or kind != "text/event-stream":
            raise SseNotSupported(f"a GET is answered with status {self._response.status}, {kind or 'nothing'}")
        try:
            name, data = next(self._events, ("", ""))
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError, BadResponse):
            name, data = "", ""
        if name != "endpoint":
            raise SseNotSupported("the stream does not start with the URL to post to")
        where = urljoin(url, data.strip())
        if urlsplit(where)[:2] != urlsplit(url)[:2]:  # the headers contain secrets for this server only
            raise SseNotSupported("it names a URL to post to on another server")
        return where

    def _read(self) -> Generator[tuple[str, str], None, None]:
        parser = Parser()
        while data := self._response.read1(65536):
            for _, kind, text in parser.feed(data):
                yield kind, text

    def _listen(self) -> None:
        events: Iterator[tuple[str, str]] = self._events
        try:
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError, BadResponse):
                for kind, text in events:
                    if kind == "message" and text:
                        self._heard(text.encode())
        except Exception:
            logger.exception("a message was lost")
        finally:
            self.over.set()
            self._lost(self)

    def post(self, body: bytes) -> str:
        """Send the server a message. Return what went wrong, or "". Raises urllib3's errors."""
        headers = {**self._headers, "Content-Type": "application/json"}
        answer = self._pool.request("POST", self._url, body=body, headers=headers, redirect=False, retries=False)
        return "" if answer.status < 300 else f"answered with status {answer.status}"

    def close(self) -> None:
        """End the session. Idempotent."""
        self._shut()
        with suppress(OSError, urllib3.exceptions.HTTPError):
            self._response.close()

    def _shut(self) -> None:
        with suppress(ValueError, RuntimeError, OSError):  # closing alone does not wake the reader
            self._response.shutdown()
