"""The HTTP interface: FastAPI around the models, and the gate around FastAPI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query
from fastapi import Request as HttpRequest
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import mnemon
from mnemon.errors import MnemonError
from mnemon.serve.events import Ack
from mnemon.serve.http import answers, pages, views, wire
from mnemon.serve.http.body import described, read
from mnemon.serve.http.direct import Direct
from mnemon.serve.http.gate import RATE, Gate, Token
from mnemon.serve.http.landing import Landing
from mnemon.serve.http.metrics import Counted, Metrics
from mnemon.serve.http.models import Models
from mnemon.serve.http.problems import Problem, answer, problem
from mnemon.serve.service import Service

WAIT = 30.0  # seconds, at most, for samples to be learned
STREAMS = 64  # who watch events at once
SMALL = {wire.NPY: 2**18, wire.JSON: 2**15}  # bytes of a body that is read in a fraction of a millisecond
SHORT = 0.002  # seconds of the event loop that a prediction may take
HEARTBEAT, LOOK = 15.0, 0.25  # seconds
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": answers.ProblemDetails, "content": {"application/problem+json": {}}, "description": text}
    for code, text in {
        400: "the request is malformed",
        401: "no token, or a wrong one",
        403: "not this token's scope, or a page of another origin",
        404: "no such model",
        409: "not in this state of the model",
        410: "not there any more",
        413: "too much at once",
        415: "a body of another type",
        421: "a host name that is not this server's",
        422: "samples, labels or a key that cannot be used",
        429: "too many requests",
        503: "too much waits, or the journal cannot be written",
        500: "a mistake of the server's",
        504: "it took too long",
        507: "the disk is full",
    }.items()
}
Position = Annotated[int | None, Query(ge=0, le=2**53, description="wait until so many samples are published")]


def app(models: Models, tokens: Iterable[Token], *, hosts: Iterable[str] = (), rate: float = RATE) -> ASGIApp:
    """All of it, behind the gate."""
    return Gate(routes(models), tokens, hosts=hosts, rate=rate, open_paths=(*pages.files(), "/healthz"))


def routes(models: Models) -> FastAPI:
    """The routes alone, without the gate."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(models.close)

    api = FastAPI(
        title="mnemon serve",
        version=mnemon.__version__,
        description="Models that learn while they serve.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses=ERRORS,
    )
    metrics = Metrics(models)
    streams, landing = asyncio.Semaphore(STREAMS), Landing()
    api.router.route_class = Direct
    _errors(api)

    api.add_middleware(Counted, metrics=metrics)

    async def service(name: str) -> Service:
        opened = models.opened().get(name)
        return opened if opened is not None else await run_in_threadpool(models.get, name)

    @api.get("/healthz", response_model=answers.Health)
    async def health() -> Response:
        """Whether the server is up, and all models take samples."""
        if models.failed is not None:
            return problem(503, "a model takes no more samples; its status says why.", {"Retry-After": "60"})
        return JSONResponse({"status": "ok"})

    @api.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Metrics as Prometheus reads them."""
        return Response(metrics.text(), media_type=metrics.type)

    @api.get("/v1/models", response_model=answers.ModelNames)
    async def names() -> Response:
        """The models there are."""
        return JSONResponse({"models": await run_in_threadpool(models.names)})

    @api.get("/v1/models/{m}", response_model=answers.ModelStatus)
    async def status(m: str) -> Response:
        """How far a model is: acknowledged, learned, published, in samples."""
        return JSONResponse(views.status(m, await service(m)))

    @api.post(
        "/v1/models/{m}/learn",
        status_code=202,
        response_model=answers.Acknowledged,
        responses={200: {"model": answers.Acknowledged, "description": "acknowledged, and learned or published"}},
        openapi_extra=described(wire.Learn, wire.Row, files=True),
    )
    async def learn(
        m: str,
        request: HttpRequest,
        wait: Annotated[Literal["learned", "published"] | None, Query(description="answer when it is")] = None,
        label: Annotated[str | None, Query(description="of one image that is the body")] = None,
        id: Annotated[str | None, Query(description="as Idempotency-Key, in any characters")] = None,
    ) -> Response:
        """Take samples: the answer comes when they are on the disk. With an Idempotency-Key (or `id`) they count once, however
        often they are sent; so they do with Mnemon-Producer and Mnemon-Position, which rises from request to request."""
        model = await service(m)
        body = await read(request, label, key=id)
        acks = await landing.of(await _accepted(model, body))
        position = max(ack.position for ack in acks)
        found = {
            "position": position if all(ack.named for ack in acks) else None,
            "samples": sum(ack.samples for ack in acks),
            "repeated": all(ack.repeated for ack in acks),
        }
        done = False
        if wait is not None:
            with contextlib.suppress(MnemonError):  # it is acknowledged, whether or not this model learns it
                done = await _reached(model, position, wait == "published", WAIT)
        return JSONResponse(found, 200 if done else 202)

    @api.post(
        "/v1/models/{m}/predict",
        response_model=answers.Predictions,
        openapi_extra=described(wire.Ask, wire.Row, files=True),
    )
    async def predict(
        m: str,
        request: HttpRequest,
        top: Annotated[int, Query(ge=1, le=100, description="how many labels to give for each sample")] = 3,
        after: Position = None,
        keep: Annotated[
            bool, Query(description="keep the samples, so that `label` can tell their label later")
        ] = False,
    ) -> Response:
        """Labels for samples, by what is published: it never waits for learning, unless `after` asks for it."""
        model = await service(m)
        body = await read(request)
        if after is not None and not await _reached(model, after, True, WAIT):
            raise Problem(504, f"{after:,} samples were not published in time.", Retry_After="5")
        found, kept = await _predicted(model, body, top, keep)
        if kept is not None:
            await landing.of(kept)
        return JSONResponse(found)

    @api.post(
        "/v1/models/{m}/label",
        status_code=202,
        response_model=answers.Acknowledged,
        openapi_extra=described(wire.Label),
    )
    async def label(m: str, request: HttpRequest) -> Response:
        """Tell the label of samples that were predicted with keep=true; they are learned once."""
        model = await service(m)
        given = wire.decoded((await read(request, only=wire.JSON)).content, wire.Label)
        (ack,) = await landing.of(await run_in_threadpool(model.label, given.prediction, given.label))
        return JSONResponse({"position": ack.position, "samples": ack.samples, "repeated": ack.repeated}, 202)

    @api.post(
        "/v1/models/{m}/retract",
        status_code=202,
        response_model=answers.Retracted,
        openapi_extra=described(wire.Retract),
    )
    async def retract(m: str, request: HttpRequest) -> Response:
        """Take back a request by its position, as if it had never come. Statistics subtract it; a network learns everything
        since the snapshot before it again, in the background."""
        model = await service(m)
        given = wire.decoded((await read(request, only=wire.JSON)).content, wire.Retract)
        if not 0 < given.position < 2**53:
            raise Problem(410, "no request has this position.")
        await asyncio.wrap_future(model.retract(given.position))
        return JSONResponse({"position": given.position}, 202)

    @api.get("/v1/models/{m}/memory", response_model=answers.Memory)
    async def memory(
        m: str,
        limit: Annotated[int, Query(ge=0, le=1000, description="rows to show")] = 100,
        label: Annotated[str | None, Query(description="of this class only")] = None,
    ) -> Response:
        """What is replayed: how many samples of each class, and some of them, 16 MiB at most. Of a learner that replays
        nothing: what is held out of learning."""
        model = await service(m)
        return Response(await run_in_threadpool(views.memory, model, limit, label), media_type="application/json")

    @api.get(
        "/v1/models/{m}/memory.png",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}, "description": "a row of thumbnails for each class"}},
    )
    async def thumbnails(
        m: str, each: Annotated[int, Query(ge=1, le=50, description="images to show of a class")] = 12
    ) -> Response:
        """The images that are replayed, as one picture: a row for each class in the order of `classes`."""
        model = await service(m)
        return Response(await run_in_threadpool(views.thumbnails, model, each), media_type="image/png")

    @api.get("/v1/models/{m}/curves", response_model=answers.Curves)
    async def curves(m: str) -> Response:
        """Accuracy as it goes, since samples are predicted before they are learned; and of each class, how the model does on
        samples that are held out of learning, and how well it ever did."""
        return JSONResponse(views.curves(await service(m)))

    @api.get(
        "/v1/models/{m}/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "server-sent events"}},
    )
    async def events(
        m: str,
        request: HttpRequest,
        follow: Annotated[bool, Query(description="go on when all that happened is told")] = True,
    ) -> Response:
        """What happens: class, published, saved, refused, retracted, and how far the model is."""
        model = await service(m)
        if streams.locked():
            raise Problem(503, "too many watch events already.", Retry_After="30")
        start = views.told(model.learning.log.boot, request.headers.get("last-event-id", ""))
        return StreamingResponse(_watch(m, model, start, follow), media_type="text/event-stream")

    async def _watch(name: str, model: Service, last: int, follow: bool) -> AsyncIterator[str]:
        async with streams:
            told, quiet = "", 0.0
            while True:
                log = model.learning.log
                lines = [views.event(log.boot, each) for each in log.after(last)]
                last = max([last, *(number for number, _ in lines)])
                now = views.status_event(name, model)
                if lines or now != told:
                    yield "".join(text for _, text in lines) + (now if now != told else "")
                    told, quiet = now, 0.0
                elif quiet >= HEARTBEAT:
                    yield ": nothing new\n\n"
                    quiet = 0.0
                if not follow or models.stopping:
                    return
                await asyncio.sleep(LOOK)
                quiet += LOOK

    @api.get(
        "/v1/models/{m}/snapshot",
        response_class=Response,
        responses={
            200: {"content": {"application/x-tar": {}}, "description": "a folder that OnlineClassifier.load reads"}
        },
    )
    async def snapshot(m: str, request: HttpRequest) -> Response:
        """The newest snapshot on the disk, as a tar file; its ETag changes when there is a newer one."""
        model = await service(m)
        tag, content = await run_in_threadpool(views.snapshot, model, request.headers.get("if-none-match"))
        if content is None:
            return Response(status_code=304, headers={"ETag": tag})
        headers = {"ETag": tag, "Content-Disposition": 'attachment; filename="model.tar"'}
        return Response(content, media_type="application/x-tar", headers=headers)

    pages.add(api)  # behind all others: a request is compared with one route after the other
    return api


def _is_small(model: Service, body: wire.Body) -> bool:
    """Whether the event loop itself reads a body: each change of threads waits for its turn beside the one that learns, which
    takes longer."""
    return model.kind is not None and len(body.content) <= SMALL.get(body.type, -1)


async def _accepted(model: Service, body: wire.Body) -> Future[list[Ack]]:
    def accept() -> Future[list[Ack]]:
        return model.accept(wire.learn_requests(body, model.kind, model.size))

    return accept() if _is_small(model, body) else await run_in_threadpool(accept)


async def _predicted(
    model: Service, body: wire.Body, top: int, keep: bool
) -> tuple[dict[str, Any], Future[Any] | None]:
    def samples() -> Any:
        return wire.samples(body, model.kind, model.size)

    if not _is_small(model, body):
        return await run_in_threadpool(lambda: views.predictions(model, samples(), top, keep))
    x = samples()
    if len(x) * model.prediction_cost <= SHORT:
        return views.predictions(model, x, top, keep)
    return await run_in_threadpool(views.predictions, model, x, top, keep)


async def _reached(model: Service, position: int, published: bool, seconds: float) -> bool:
    """Wait until so many samples are learned, or published; not for ever. A MnemonError: that will never be."""
    try:
        await asyncio.wait_for(asyncio.wrap_future(model.learning.wait(position, published=published)), seconds)
    except TimeoutError:
        return False
    return True


def _errors(api: FastAPI) -> None:
    """Every error is problem+json with a sentence."""

    @api.exception_handler(MnemonError)
    async def ours(request: HttpRequest, error: MnemonError) -> Response:
        return answer(error)

    @api.exception_handler(ClientDisconnect)
    async def gone(request: HttpRequest, error: ClientDisconnect) -> Response:
        return problem(400, "the request was cut off.")  # nobody hears it

    @api.exception_handler(Exception)  # the framework raises it again behind the answer, and uvicorn logs it
    async def unknown(request: HttpRequest, error: Exception) -> Response:
        return problem(500, "the server made a mistake, which is in its log.")

    @api.exception_handler(RequestValidationError)
    async def invalid(request: HttpRequest, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{where[:200]}: {first['msg']}.")

    @api.exception_handler(HTTPException)
    async def of_the_framework(request: HttpRequest, error: HTTPException) -> Response:
        return problem(error.status_code, f"{request.method} {error.detail}."[:300], dict(error.headers or {}))
