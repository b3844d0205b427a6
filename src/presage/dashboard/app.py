"""The dashboard's web application: reads by GET, changes by POST from its own page only."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from presage.dashboard.followed import Followed
from presage.errors import PresageError, StorageError, StudyError
from presage.storage import Storage
from presage.table import as_csv

STATIC = Path(__file__).parent / "static"
FILES = {
    "app.js": "text/javascript", "views.js": "text/javascript", "style.css": "text/css", "login.js": "text/javascript",
    "plotly-basic.min.js": "text/javascript", "plotly.css": "text/css",
    "plotly-LICENSE.txt": "text/plain", "icon.svg": "image/svg+xml",
}  # fmt: skip
# Nothing from elsewhere, no inline script or style, no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
COOKIE = "presage-session"
POLL = 0.5  # seconds between looks at the storage
KEEP_ALIVE = 15.0  # seconds of silence after which a comment keeps a stream open
LARGEST_BODY = 100_000


class Watch:
    """All studies of a storage, looked at twice a second while somebody watches."""

    def __init__(self, storage: Storage):
        self.storage = storage
        self.studies: dict[str, Followed] = {}
        self.seqs: dict[str, int] = {}
        self.version = 0
        self.moved = asyncio.Condition()

    def look(self) -> bool:
        """Take in what is new; whether anything was."""
        names = self.storage.studies()
        for name in names:
            self.studies.setdefault(name, Followed(self.storage, name))
        for name in [name for name in self.studies if name not in names]:
            del self.studies[name]
        seqs = {name: self.studies[name].sync() for name in names}
        moved, self.seqs = seqs != self.seqs, seqs
        return moved

    async def go(self) -> None:
        """Look until cancelled. A storage that is busy or away for a moment is looked at again."""
        while True:
            moved = False
            with suppress(StorageError):
                moved = await run_in_threadpool(self.look)
            if moved:
                async with self.moved:
                    self.version += 1
                    self.moved.notify_all()
            await asyncio.sleep(POLL)

    def study(self, name: str) -> Followed:
        """A study by its name, up to date."""
        if name not in self.studies:
            if name not in self.storage.studies():
                raise StudyError(f"there is no study {name!r}")
            self.studies[name] = Followed(self.storage, name)
        self.studies[name].sync()
        return self.studies[name]


def create_app(storage: Storage, *, token: str | None = None, loopback: bool = True) -> Starlette:
    """The application.

    Args:
        storage: whose studies are shown.
        token: what a browser must show once; may be left out for loopback only.
        loopback: answer to names of this machine only, whatever a page elsewhere makes the browser believe.
    """
    if not loopback and not token:
        raise StudyError("a dashboard that others can reach needs a token; give --token or set PRESAGE_TOKEN")
    watch = Watch(storage)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(watch.go())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def read(answer: Callable[[Followed, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            def work() -> Any:
                return answer(watch.study(request.query_params.get("name", "")), request)

            return JSONResponse(await run_in_threadpool(work))

        return endpoint

    def change(answer: Callable[[Followed, dict[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body = json.loads(await _body(request))
            if not isinstance(body, dict) or not isinstance(body.get("name"), str):
                raise StudyError("a change must be a JSON object with the name of a study")
            return JSONResponse(
                {"ok": True, "result": await run_in_threadpool(lambda: answer(watch.study(body["name"]), body))}
            )

        return endpoint

    async def studies(request: Request) -> Response:
        def work() -> list[dict[str, Any]]:
            watch.look()
            return [watch.studies[name].summary() for name in sorted(watch.studies)]

        return JSONResponse(await run_in_threadpool(work))

    async def events(request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            sent: dict[str, int] = {}
            yield ": hello\n\n"
            while True:
                seqs = watch.seqs
                news = {name: seq for name, seq in seqs.items() if sent.get(name) != seq}
                if news or sent.keys() - seqs.keys():
                    version, sent = watch.version, dict(seqs)
                    yield f"data: {json.dumps({'seqs': seqs})}\n\n"
                else:
                    version = watch.version
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        async with watch.moved:
                            await watch.moved.wait_for(lambda version=version: watch.version != version)  # type: ignore[misc]
                except TimeoutError:
                    yield ": still here\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def csv(request: Request) -> Response:
        name = request.query_params.get("name", "")

        def work() -> str:
            followed = watch.study(name)
            with followed.lock:
                return as_csv(followed.history)

        text = await run_in_threadpool(work)
        plain = (
            "".join(c if (c.isalnum() and c.isascii()) or c in "-_." else "_" for c in name).strip(".")[:60] or "study"
        )
        place = f"attachment; filename=\"{plain}.csv\"; filename*=UTF-8''{quote(name, safe='')}.csv"
        return PlainTextResponse(text, media_type="text/csv", headers={"Content-Disposition": place})

    async def page(request: Request) -> Response:
        return _file(request, "index.html")

    async def static(request: Request) -> Response:
        file = request.path_params["file"]
        return _file(request, file) if file in FILES else PlainTextResponse("Not found", 404)

    async def login(request: Request) -> Response:
        if request.method == "GET":
            return _file(request, "login.html")
        given = json.loads(await _body(request)).get("token", "")
        if token is None or not hmac.compare_digest(str(given).encode(), token.encode()):
            return JSONResponse({"error": "That is not the token."}, 403)
        response = JSONResponse({"ok": True})
        response.set_cookie(COOKIE, _session(token), httponly=True, samesite="strict", max_age=30 * 86400)
        return response

    routes = [
        Route("/", page), Route("/static/{file}", static), Route("/login", login, methods=["GET", "POST"]),
        Route("/api/studies", studies), Route("/api/events", events), Route("/api/csv", csv),
        Route("/api/study", read(lambda f, r: f.facts())),
        Route("/api/trials", read(lambda f, r: f.trials(_whole(r, "since")))),
        Route("/api/trial", read(lambda f, r: f.trial(_whole(r, "number")))),
        Route("/api/slice", read(lambda f, r: f.slice(r.query_params.get("param", ""), _params(r)))),
        Route("/api/importance", read(lambda f, r: f.importance())),
        Route("/api/advice", read(lambda f, r: f.advice())),
        Route("/api/curves", read(lambda f, r: f.curves())),
        Route("/api/workers", read(lambda f, r: f.workers())),
        Route("/api/control", change(lambda f, b: f.control(str(b.get("action")))), methods=["POST"]),
        Route("/api/note", change(lambda f, b: f.note(b.get("text", ""), b.get("number"))), methods=["POST"]),
        Route("/api/add", change(lambda f, b: f.add(b.get("params", {}), b.get("value"))), methods=["POST"]),
    ]  # fmt: skip

    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    app = Starlette(
        routes=routes, lifespan=life,
        exception_handlers={PresageError: refuse, json.JSONDecodeError: refuse},
    )  # fmt: skip
    app.add_middleware(_Guard, token=token, loopback=loopback)
    app.state.watch = watch
    return app


class _Guard:
    """Who may ask, what may change things, and the headers of every answer; plain ASGI, so streams stay streams."""

    def __init__(self, app: Any, token: str | None, loopback: bool):
        self.app, self.token, self.loopback = app, token, loopback

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                has = {key for key, _ in message["headers"]}
                new = {**HEADERS, **({} if b"cache-control" in has else {"Cache-Control": "no-store"})}
                message["headers"] = [*message["headers"], *((k.lower().encode(), v.encode()) for k, v in new.items())]
            await send(message)

        refused = self._refusal(Request(scope))
        await (refused or self.app)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if self.loopback and host not in LOOPBACK:  # a page elsewhere may have its name resolve to this machine
            return PlainTextResponse("This dashboard answers to localhost only.", 400)
        if request.method not in ("GET", "HEAD") and (why := _foreign(request)):
            return PlainTextResponse(why, 403)
        path = request.url.path
        if (
            self.token is None
            or path == "/login"
            or path in ("/static/style.css", "/static/login.js", "/static/icon.svg")
        ):
            return None
        cookie, header = request.cookies.get(COOKIE, ""), request.headers.get("authorization", "")
        if hmac.compare_digest(cookie.encode(), _session(self.token).encode()):
            return None
        if hmac.compare_digest(header.encode(), f"Bearer {self.token}".encode()):
            return None
        return RedirectResponse("/login", 303) if path == "/" else PlainTextResponse("A token is needed.", 401)


@cache
def _content(file: str) -> tuple[bytes, str]:
    content = (STATIC / file).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _file(request: Request, file: str) -> Response:
    """A file of the page, from memory: read in a thread it would wait for those that take in a large study."""
    content, tag = _content(file)
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=FILES.get(file, "text/html"), headers=headers)


def _foreign(request: Request) -> str | None:
    """Why a request that changes something cannot be from our own page; None where it can.

    Another site can send forms, but neither this content type nor this header without a preflight, which nobody grants.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return "A change must be sent as application/json."
    if request.headers.get("x-presage") != "1":
        return "A change must have the header X-Presage: 1."
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return "A change must come from the dashboard's own page."
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "A change must come from the dashboard's own page."
    return None


def _session(token: str) -> str:
    return hashlib.sha256(b"presage session " + token.encode()).hexdigest()


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise StudyError(f"a request may have {LARGEST_BODY} bytes, but this one has more")
    return body


def _whole(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise StudyError(f"{name} must be a whole number, but got {text!r}")
    return int(text)


def _params(request: Request) -> dict[str, Any] | None:
    text = request.query_params.get("at")
    if text is None:
        return None
    params = json.loads(text)
    if not isinstance(params, dict):
        raise StudyError("at must be a JSON object of params")
    return params
