"""The HTTP face of the pool: verdicts, health, readiness, and the self-test that readiness depends on."""

import asyncio
import contextlib
import dataclasses
import hmac
import itertools
import json
import logging
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any

import fastapi
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from sandbox import landlock, layers, logs, models, outputs, pool, probes
from sandbox.fairness import Verdict
from sandbox.metrics import Metrics
from sandbox.surroundings import Surroundings
from sandbox.version import judge_version
from sandbox.worker import Settings

log = logging.getLogger("sandbox")

MAX_BODY_BYTES = 64 << 20
SECONDS_PER_ITEM_GUESS = 0.05  # for Retry-After: mixed batches, some of which time out
LONGEST_RETRY_AFTER = 30
LOOK_UP_SECONDS = 0.5  # how often a waiting request looks whether it is still wanted
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Refusal, "description": "The body is no JSON text."},
    401: {"model": models.Refusal, "description": "The bearer token is missing or wrong."},
    411: {"model": models.Refusal, "description": "The request does not say its length."},
    413: {"model": models.Refusal, "description": "The request is too large."},
    422: {"model": models.Refusal, "description": "The request is none; the sentence names the limit or the field."},
    429: {"model": models.Refusal, "description": "The queue is full. Retry-After says in how many seconds to ask."},
    503: {"model": models.Refusal, "description": "Nothing is judged, or the service is stopping."},
}
ClientId = Annotated[
    str,
    fastapi.Header(
        max_length=models.MAX_CLIENT,
        pattern="^[!-~]*$",
        description="Clients share the workers fairly; one is an address and, where several share it, this name.",
    ),
]


@dataclass(frozen=True)
class Configuration:
    """What an operator decides.

    Attributes:
        settings: of every worker.
        workers: programs judged at a time.
        capacity: items that may be unfinished.
        token: what requests must bear, None for nothing.
        runtime: one of layers.RUNTIMES; says which layers are required.
        optional_layers: layers that are not required, whatever the runtime.
        canary_seconds: between two checks of a worker that nothing has happened to.
        log_programs: whether programs and their tests are logged.
        must_not_reach: host and port of what nothing here may connect to; nothing is judged while it can be.
    """

    settings: Settings
    workers: int
    capacity: int
    token: str | None
    runtime: str
    optional_layers: frozenset[str]
    canary_seconds: float
    log_programs: bool
    must_not_reach: tuple[tuple[str, int], ...] = ()


class Service:
    """The pool, what its self-test found, and the handlers that HTTP calls."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.metrics = Metrics()
        settings = configuration.settings
        if landlock.abi() == 0:
            settings = dataclasses.replace(settings, use_landlock=False)
        self.pool = pool.Pool(
            settings,
            workers=configuration.workers,
            capacity=configuration.capacity,
            canary_seconds=configuration.canary_seconds,
            observer=self.metrics,
        )
        self.metrics.watch(self.pool)
        self.required = layers.required_layers(configuration.runtime, configuration.optional_layers)
        self.findings: dict[str, layers.Finding] = {}
        self.surroundings = Surroundings(configuration.must_not_reach)
        self.reason: str | None = "the self-test has not run yet"
        self.abandoned = False  # set while stopping, when requests have been waited for long enough

    def start(self) -> None:
        """Start the workers and run the self-test; afterwards `objection` says what stands against judging."""
        self.surroundings.start()
        without = not self.pool.settings.use_landlock
        if without and self.required & layers.LANDLOCK_LAYERS:
            self.findings = dict.fromkeys(layers.LANDLOCK_LAYERS, layers.Finding("absent", "Landlock is not in use"))
            self.reason = (
                "files could be read, because this kernel offers no Landlock; "
                "--runtime gvisor or bare allows that, and so does --without-landlock"
            )
            logs.event(logging.ERROR, "not ready", {"reason": self.reason})
            return
        if without:
            log.warning("running without Landlock: programs can read this user's files; bear that on your own machine")
        self.pool.start()
        self.findings = probes.run_probes(self.pool)
        self.reason = layers.objection(self.findings, self.required)
        for name, finding in self.findings.items():
            level = logging.INFO if finding.state == "holds" else logging.WARNING
            if name in self.required and finding.state != "holds":
                level = logging.ERROR
            logs.event(level, "self-test", {"layer": name, **vars(finding)})

    def stop(self) -> None:
        """Stop the workers and everything else that runs."""
        self.surroundings.stop()
        self.pool.stop()

    @property
    def objection(self) -> str | None:
        """What stands against judging: a layer that does not hold, or what can be reached from here."""
        return self.reason or self.surroundings.reason

    def readiness(self) -> models.Readiness:
        """What /readyz answers."""
        reason = self.objection or (None if self.pool.live_workers else "no worker is up")
        return models.Readiness(
            ready=reason is None,
            reason=reason,
            version=judge_version(self.pool.settings),
            python=platform.python_version(),
            landlock_abi=landlock.abi(),
            runtime=self.configuration.runtime,
            layers={
                name: models.LayerState(
                    required=name in self.required, kept_by=layers.BY_NAME[name].kept_by, **vars(finding)
                )
                for name, finding in self.findings.items()
            },
            workers=self.pool.workers,
            live_workers=self.pool.live_workers,
            unfinished=self.pool.unfinished,
            waiting=self.pool.waiting,
            capacity=self.pool.capacity,
        )

    def refusal(self, headers: Mapping[str, str]) -> JSONResponse | None:
        """Why a request is refused before its body is read, if it is: the token, or the size it announces."""
        token = self.configuration.token
        expected = f"Bearer {token}".encode()
        if token and not hmac.compare_digest(headers.get("authorization", "").encode(), expected):
            detail = "The bearer token is missing or wrong."
            return JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "")
        if not length.isdigit():
            return JSONResponse({"detail": "The request must say its length (Content-Length)."}, 411)
        if int(length) > MAX_BODY_BYTES:
            return JSONResponse({"detail": f"The request is larger than {MAX_BODY_BYTES} bytes."}, 413)
        return None

    async def judge(
        self, client: str, request: models.VerdictsRequest, disconnected: Callable[[], Awaitable[bool]]
    ) -> list[Verdict]:
        """The verdicts of one client's request, in its order. Raises HTTPException 429 and 503."""
        started = time.monotonic()
        status, verdicts = 200, list[Verdict]()
        about: dict[str, Any] = {"client": client, "items": len(request.items)}
        try:
            verdicts = await self._await_all(self._submit(client, request), disconnected)
            about["outcomes"] = Counter(verdict["outcome"] for verdict in verdicts)
            return verdicts
        except fastapi.HTTPException as refusal:
            status, about["reason"] = refusal.status_code, refusal.detail
            raise
        finally:
            about |= {"status": status, "seconds": round(time.monotonic() - started, 4)}
            self.metrics.answered(status, verdicts, about["seconds"])
            logs.event(logging.INFO if status == 200 else logging.WARNING, "verdicts", about)
            if self.configuration.log_programs:
                for item, verdict in zip(request.items, verdicts, strict=False):  # none when refused
                    logs.event(logging.INFO, "verdict", {"client": client, **item.model_dump(), "verdict": verdict})

    def _submit(self, client: str, request: models.VerdictsRequest) -> "list[Future[Verdict]]":
        if objection := self.objection:
            raise fastapi.HTTPException(503, f"The sandbox judges nothing: {objection}.", {"Retry-After": "5"})
        try:
            return self.pool.submit(client, [dict(item) for item in request.items])
        except pool.Full as full:
            self.metrics.refused.inc()
            seconds = self.pool.unfinished * SECONDS_PER_ITEM_GUESS / self.pool.workers
            headers = {"Retry-After": str(max(1, min(LONGEST_RETRY_AFTER, round(seconds))))}
            raise fastapi.HTTPException(429, f"{full}; try again later.", headers) from None

    async def _await_all(
        self, futures: "list[Future[Verdict]]", disconnected: Callable[[], Awaitable[bool]]
    ) -> list[Verdict]:
        """Wait for all verdicts; when nobody waits for them any more, take back what has not begun."""
        waiting = asyncio.ensure_future(when_all_are_done(futures).wait())
        while not (await asyncio.wait([waiting], timeout=LOOK_UP_SECONDS))[0]:
            if self.abandoned or await disconnected():
                waiting.cancel()
                for future in futures:
                    future.cancel()
                raise fastapi.HTTPException(503, "The sandbox is stopping; ask another.", {"Retry-After": "1"})
        return [future.result() for future in futures]


def when_all_are_done(futures: "list[Future[Verdict]]") -> asyncio.Event:
    """An event for the running loop, which is woken once for all of them: once for each costs more than an answer."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    done, expected = itertools.count(1), len(futures)  # no cycle: the futures keep what follows

    def count(_: "Future[Verdict]") -> None:
        if next(done) == expected:
            loop.call_soon_threadsafe(event.set)

    for future in futures:
        future.add_done_callback(count)
    return event


def make_app(service: Service) -> fastapi.FastAPI:
    """The application; its start-up starts the workers, its shutdown stops them."""

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.start)
        yield
        await asyncio.to_thread(service.stop)

    version = judge_version(service.pool.settings)
    app = fastapi.FastAPI(title="grpo-code sandbox", version=version, lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.exception_handler(RequestValidationError)
    async def explain(_: fastapi.Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": one_sentence(error)}, 422)

    @app.post("/v1/verdicts", response_model=models.VerdictsResponse, responses=REFUSALS)
    async def verdicts(body: models.VerdictsRequest, request: fastapi.Request, x_client_id: ClientId = "") -> Any:
        """Judge a batch of programs. Every item gets a verdict; a full queue refuses the whole request with 429."""
        found = await service.judge(client_of(request, x_client_id), body, request.is_disconnected)
        # Written here: what this service has made itself need not be validated as its response model.
        return fastapi.Response(json.dumps({"verdicts": found}), media_type="application/json")

    @app.post("/v1/outputs", response_model=outputs.OutputsResponse, responses=REFUSALS)
    async def outputs_of(body: outputs.OutputsRequest, request: fastapi.Request, x_client_id: ClientId = "") -> Any:
        """Run calls of a batch of programs and write down what they return. Queue, jail and limits are a verdict's."""
        found = await service.judge(client_of(request, x_client_id), body.as_verdicts(), request.is_disconnected)
        return outputs.response(found)

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


def client_of(request: fastapi.Request, named: str) -> str:
    """Who asks, as the fair queue knows it: an address and the name given."""
    address = request.client.host if request.client else ""
    return f"{address} {named}".strip()


def one_sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ")
    more = f" ({len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
    return f"{place}: {message}{more}." if place else f"{message}{more}."
