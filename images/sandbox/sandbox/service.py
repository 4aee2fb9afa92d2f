"""The HTTP face of the pool: verdicts, health, readiness, and the self-test that readiness depends on."""

import asyncio
import contextlib
import hmac
import logging
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

import fastapi
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from sandbox import landlock, models, pool, probes
from sandbox.metrics import Metrics
from sandbox.version import package_version
from sandbox.worker import Settings

log = logging.getLogger("sandbox")

MAX_BODY_BYTES = 64 << 20
SECONDS_PER_ITEM_GUESS = 0.05  # for Retry-After: mixed batches, some of which time out
LONGEST_RETRY_AFTER = 30
LOOK_UP_SECONDS = 0.5  # how often a waiting request looks whether it is still wanted


class Service:
    """The pool, what its self-test found, and the handlers that HTTP calls."""

    def __init__(self, settings: Settings, *, workers: int, capacity: int, token: str | None) -> None:
        """capacity: items that may wait. token: what requests must bear, None for nothing."""
        self.metrics = Metrics()
        self.pool = pool.Pool(
            settings, workers=workers, capacity=capacity, on_replaced=self.metrics.workers_replaced.inc
        )
        self.metrics.watch(self.pool)
        self.layers: dict[str, str] = {}
        self.reason: str | None = "the self-test has not run yet"
        self.abandoned = False  # set while stopping, when requests have been waited for long enough
        self._token = token

    def start(self) -> None:
        """Start the workers and run the self-test; afterwards `reason` says what stands against judging."""
        if self.pool.settings.use_landlock and landlock.abi() == 0:
            self.reason = "this kernel offers no Landlock; --without-landlock does without it"
            log.error("not ready: %s", self.reason)
            return
        if not self.pool.settings.use_landlock:
            log.warning(
                "running without Landlock: programs can read the files of this user; never do this on a cluster"
            )
        self.pool.start()
        self.layers = probes.run_probes(self.pool)
        leaks = {layer: state for layer, state in self.layers.items() if state.startswith("leaks")}
        self.reason = "; ".join(f"{layer} {state}" for layer, state in leaks.items()) or None
        for layer, state in self.layers.items():
            log.log(logging.ERROR if layer in leaks else logging.INFO, "self-test: %s: %s", layer, state)

    def readiness(self) -> models.Readiness:
        """What /readyz answers."""
        reason = self.reason or (None if self.pool.live_workers else "no worker is up")
        return models.Readiness(
            ready=reason is None,
            reason=reason,
            version=package_version(),
            python=platform.python_version(),
            landlock_abi=landlock.abi(),
            layers=self.layers,
            workers=self.pool.workers,
            live_workers=self.pool.live_workers,
            unfinished=self.pool.unfinished,
            capacity=self.pool.capacity,
        )

    def refusal(self, headers: Mapping[str, str]) -> JSONResponse | None:
        """Why a request is refused before its body is read, if it is: the token, or the size it announces."""
        expected = f"Bearer {self._token}".encode()
        if self._token and not hmac.compare_digest(headers.get("authorization", "").encode(), expected):
            detail = "The bearer token is missing or wrong."
            return JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "")
        if not length.isdigit():
            return JSONResponse({"detail": "The request must say its length (Content-Length)."}, 411)
        if int(length) > MAX_BODY_BYTES:
            return JSONResponse({"detail": f"The request is larger than {MAX_BODY_BYTES} bytes."}, 413)
        return None

    async def judge(self, request: models.VerdictsRequest, disconnected: Callable[[], Awaitable[bool]]) -> Any:
        """The verdicts of one request, in its order. Raises HTTPException 429 and 503."""
        readiness = self.readiness()
        if self.reason is not None:
            raise fastapi.HTTPException(503, f"The sandbox judges nothing: {readiness.reason}.", {"Retry-After": "5"})
        try:
            futures = self.pool.submit([item.model_dump() for item in request.items])
        except pool.Full:
            self.metrics.refused.inc()
            seconds = self.pool.unfinished * SECONDS_PER_ITEM_GUESS / self.pool.workers
            headers = {"Retry-After": str(max(1, min(LONGEST_RETRY_AFTER, round(seconds))))}
            message = f"The queue is full ({self.pool.unfinished} of {self.pool.capacity} items); try again later."
            raise fastapi.HTTPException(429, message, headers) from None
        verdicts = await self._await_all(futures, disconnected)
        for verdict in verdicts:
            self.metrics.count(verdict)
        return {"verdicts": verdicts}

    async def _await_all(
        self, futures: "list[Future[pool.Verdict]]", disconnected: Callable[[], Awaitable[bool]]
    ) -> list[pool.Verdict]:
        """Wait for all verdicts; when nobody waits for them any more, take back what has not begun."""
        waiting = asyncio.gather(*map(asyncio.wrap_future, futures))
        while not (await asyncio.wait([waiting], timeout=LOOK_UP_SECONDS))[0]:
            if self.abandoned or await disconnected():
                waiting.cancel()
                raise fastapi.HTTPException(503, "The sandbox is stopping; ask another.", {"Retry-After": "1"})
        return waiting.result()


def make_app(service: Service) -> fastapi.FastAPI:
    """The application; its start-up starts the workers, its shutdown stops them."""

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.start)
        yield
        await asyncio.to_thread(service.pool.stop)

    app = fastapi.FastAPI(
        title="grpo-code sandbox", version=package_version(), lifespan=lifespan, docs_url=None, redoc_url=None
    )

    @app.exception_handler(RequestValidationError)
    async def explain(_: fastapi.Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": one_sentence(error)}, 422)

    @app.post("/v1/verdicts", response_model=models.VerdictsResponse)
    async def verdicts(body: models.VerdictsRequest, request: fastapi.Request) -> Any:
        """Judge a batch of programs. Every item gets a verdict; a full queue refuses the whole request with 429."""
        return await service.judge(body, request.is_disconnected)

    @app.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """The process answers."""
        return "ok\n"

    @app.get("/readyz", response_model=models.Readiness, responses={503: {"model": models.Readiness}})
    async def readyz(response: fastapi.Response) -> models.Readiness:
        """Whether the service judges: 200, or 503 with the reason."""
        readiness = service.readiness()
        response.status_code = 200 if readiness.ready else 503
        return readiness

    @app.middleware("http")
    async def guard(request: fastapi.Request, proceed: Callable[[fastapi.Request], Awaitable[fastapi.Response]]) -> Any:
        """Refuse before a body is read."""
        refusal = service.refusal(request.headers) if request.url.path.startswith("/v1/") else None
        if refusal is not None:
            return refusal
        return await proceed(request)

    return app


def one_sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ")
    more = f" ({len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
    return f"{place}: {message}{more}." if place else f"{message}{more}."
