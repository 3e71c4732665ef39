"""The HTTP interface: the routes (FastAPI) over the models, behind the gate."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
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
from mnemon.serve.http.fast_route import FastRoute
from mnemon.serve.http.gate import RATE, Gate, Token
from mnemon.serve.http.metrics import Counted, Metrics
from mnemon.serve.http.models import Models
from mnemon.serve.http.problems import Problem, answer, problem
from mnemon.serve.http.thread_futures import ThreadFutures
from mnemon.serve.service import Service

WAIT = 30.0  # seconds that ?wait= and ?after= wait at most
STREAMS = 64  # event streams open at once
SMALL = {wire.NPY: 2**18, wire.JSON: 2**15}  # bytes: a body up to this size is read in a fraction of a millisecond
SHORT = 0.002  # seconds: a prediction expected to take longer leaves the event loop
HEARTBEAT, LOOK = 15.0, 0.25  # seconds between two comments of a quiet event stream, and between two looks
READERS = max(2, os.cpu_count() or 1)  # large bodies read at once: an image takes a hundred megabytes meanwhile
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": answers.ProblemDetails, "content": {"application/problem+json": {}}, "description": text}
    for code, text in {
        400: "the request is malformed",
        401: "the token is missing or wrong",
        403: "the token lacks the scope, or the request comes from a page of another origin",
        404: "there is no such model",
        409: "the model is in a state that does not allow this",
        410: "the prediction or the samples are no longer stored",
        413: "the request is too large",
        415: "the body has an unsupported type",
        421: "the host name is not one of this server's",
        422: "the samples, the labels or the key cannot be used",
        429: "the token sends too many requests",
        500: "an error in the server",
        503: "too many samples wait to be learned, or the journal cannot be written",
        504: "the model did not get so far in time",
        507: "the disk is full",
    }.items()
}
SENTENCES = {  # where the framework's own words say little
    404: "there is nothing at this path; /openapi.json describes the interface.",
    405: "this path does not take this method; /openapi.json describes the interface.",
}
Position = Annotated[
    int | None, Query(ge=0, le=2**53, description="answer when the first `after` samples are published")
]


def app(models: Models, tokens: Iterable[Token], *, hosts: Iterable[str] = (), rate: float = RATE) -> ASGIApp:
    """Return the whole application: the routes behind the gate."""
    return Gate(routes(models), tokens, hosts=hosts, rate=rate, open_paths=(*pages.files(), "/healthz"))


def routes(models: Models) -> FastAPI:
    """Return the routes without the gate."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(models.close)

    api = FastAPI(
        title="mnemon serve",
        version=mnemon.__version__,
        description="Models that learn while they serve.",
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses=ERRORS,
    )
    metrics = Metrics(models)
    streams, readers, futures = asyncio.Semaphore(STREAMS), asyncio.Semaphore(READERS), ThreadFutures()
    api.router.route_class = FastRoute
    _errors(api)

    api.add_middleware(Counted, metrics=metrics)

    async def service(name: str) -> Service:
        opened = models.opened().get(name)
        return opened if opened is not None else await run_in_threadpool(models.get, name)

    @api.get("/healthz", response_model=answers.Health)
    async def health() -> Response:
        """Tell whether the server is up and all models accept samples."""
        if models.failed is not None:
            return problem(503, "a model accepts no more samples; its status says why.", {"Retry-After": "60"})
        return JSONResponse({"status": "ok"})

    @api.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Return the metrics in the format of Prometheus."""
        return Response(metrics.text(), media_type=metrics.type)

    @api.get("/v1/models", response_model=answers.ModelNames)
    async def names() -> Response:
        """List the models."""
        return JSONResponse({"models": await run_in_threadpool(models.names)})

    @api.get("/v1/models/{m}", response_model=answers.ModelStatus)
    async def status(m: str) -> Response:
        """Return the state of a model: how many samples are acknowledged, learned and published, and its classes."""
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
        wait: Annotated[
            Literal["learned", "published"] | None,
            Query(description="answer only when the samples are learned, or published"),
        ] = None,
        label: Annotated[str | None, Query(description="the label, if the body is one image")] = None,
        id: Annotated[
            str | None, Query(description="the same as the header Idempotency-Key, but may have any characters")
        ] = None,
    ) -> Response:
        """Learn samples. The answer comes as soon as they are on the disk; they are learned soon after.

        Samples with an Idempotency-Key (or `id`) are learned once, however often they are sent. So are those with the headers
        Mnemon-Producer (a name) and Mnemon-Position (a number that rises from request to request)."""
        model = await service(m)
        body = await read(request, label, key=id)
        acks = await futures.result(await _accepted(model, body, readers))
        position = max(ack.position for ack in acks)
        found = {
            "position": position if all(ack.named for ack in acks) else None,
            "samples": sum(ack.samples for ack in acks),
            "repeated": all(ack.repeated for ack in acks),
        }
        done = False
        if wait is not None:
            with contextlib.suppress(MnemonError):  # the samples are acknowledged, even if this model cannot learn them
                done = await _reached(models, model, position, published=wait == "published")
        return JSONResponse(found, 200 if done else 202)

    @api.post(
        "/v1/models/{m}/predict",
        response_model=answers.Predictions,
        openapi_extra=described(wire.Ask, wire.Row, files=True),
    )
    async def predict(
        m: str,
        request: HttpRequest,
        top: Annotated[
            int, Query(ge=1, le=100, description="how many of the likeliest labels to return per sample")
        ] = 3,
        after: Position = None,
        keep: Annotated[
            bool, Query(description="store the samples, so that `label` can add their label later")
        ] = False,
    ) -> Response:
        """Predict labels with the published state. A prediction never waits for learning, unless `after` asks for it."""
        model = await service(m)
        body = await read(request)
        if after is not None and not await _reached(models, model, after, published=True):
            raise Problem(504, f"the first {after:,} samples were not published in time.", Retry_After="5")
        found, kept = await _predicted(model, body, top, keep, readers)
        if kept is not None:
            await futures.result(kept)
        return JSONResponse(found)

    @api.post(
        "/v1/models/{m}/label",
        status_code=202,
        response_model=answers.Acknowledged,
        openapi_extra=described(wire.Label),
    )
    async def label(m: str, request: HttpRequest) -> Response:
        """Add the label of samples that were predicted with keep=true. They are learned once."""
        model = await service(m)
        given = wire.decoded((await read(request, only=wire.JSON)).content, wire.Label)
        (ack,) = await futures.result(await run_in_threadpool(model.label, given.prediction, given.label))
        return JSONResponse({"position": ack.position, "samples": ack.samples, "repeated": ack.repeated}, 202)

    @api.post(
        "/v1/models/{m}/retract",
        status_code=202,
        response_model=answers.Retracted,
        openapi_extra=described(wire.Retract),
    )
    async def retract(m: str, request: HttpRequest) -> Response:
        """Unlearn the samples of one request, named by the position in its acknowledgement.

        A learner that keeps statistics subtracts them. A network is trained again from the snapshot before them, in the
        background."""
        model = await service(m)
        given = wire.decoded((await read(request, only=wire.JSON)).content, wire.Retract)
        if not 0 < given.position < 2**53:
            raise Problem(410, "no request has this position.")
        await asyncio.wrap_future(model.retract(given.position))
        return JSONResponse({"position": given.position}, 202)

    @api.get("/v1/models/{m}/memory", response_model=answers.Memory)
    async def memory(
        m: str,
        limit: Annotated[int, Query(ge=0, le=1000, description="how many rows to return")] = 100,
        label: Annotated[str | None, Query(description="only rows of this class")] = None,
    ) -> Response:
        """Return the memory: how many samples of each class it has, and some of them (at most 16 MiB).

        For a learner without a memory these are the samples of the exam."""
        model = await service(m)
        return Response(await run_in_threadpool(views.memory, model, limit, label), media_type="application/json")

    @api.get(
        "/v1/models/{m}/memory.png",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}, "description": "one row of thumbnails per class"}},
    )
    async def thumbnails(
        m: str, each: Annotated[int, Query(ge=1, le=50, description="images per class")] = 12
    ) -> Response:
        """Return the images of the memory as one picture, one row per class in the order of `classes`."""
        model = await service(m)
        return Response(await run_in_threadpool(views.thumbnails, model, each), media_type="image/png")

    @api.get("/v1/models/{m}/curves", response_model=answers.Curves)
    async def curves(m: str) -> Response:
        """Return the test-then-train accuracy over time, and for each class the accuracy on its exam, now and at its best."""
        return JSONResponse(views.curves(await service(m)))

    @api.get(
        "/v1/models/{m}/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "server-sent events"}},
    )
    async def events(
        m: str,
        request: HttpRequest,
        follow: Annotated[bool, Query(description="keep the stream open for events to come")] = True,
    ) -> Response:
        """Stream events: class, published, saved, refused, retracted, and status (the numbers of samples)."""
        model = await service(m)
        if streams.locked():
            raise Problem(503, f"{STREAMS} event streams are open, which is the limit.", Retry_After="30")
        start = views.last_event(model.learning.log.boot, request.headers.get("last-event-id", ""))
        return StreamingResponse(_watch(m, model, start, follow), media_type="text/event-stream")

    async def _watch(name: str, model: Service, last: int, follow: bool) -> AsyncIterator[str]:
        if streams.locked():  # others came at the same moment; a client asks again when its stream ends
            return
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

    @api.post("/v1/models/{m}/snapshot", status_code=201, response_model=answers.Saved)
    async def save(m: str) -> Response:
        """Write a snapshot now, of all that is learned. Without this there is one at the latest a day after a change."""
        model = await service(m)
        await asyncio.wrap_future(model.learning.ask_save())
        return JSONResponse({"learned": model.learning.saved}, 201)

    @api.get(
        "/v1/models/{m}/snapshot",
        response_class=Response,
        responses={200: {"content": {"application/x-tar": {}}, "description": "a folder for OnlineClassifier.load"}},
    )
    async def snapshot(m: str, request: HttpRequest) -> Response:
        """Return the newest snapshot on the disk as a tar file. Its ETag changes with its content."""
        model = await service(m)
        tag, content = await run_in_threadpool(views.snapshot, model, request.headers.get("if-none-match"))
        if content is None:
            return Response(status_code=304, headers={"ETag": tag})
        headers = {"ETag": tag, "Content-Disposition": 'attachment; filename="model.tar"'}
        return Response(content, media_type="application/x-tar", headers=headers)

    pages.add(api)  # last, because a request is compared with the routes in order
    return api


def _is_small(model: Service, body: wire.Body) -> bool:
    """Return whether the event loop itself may read this body. For a small body a change of threads, which competes with the
    learning thread, would take longer than the reading."""
    return model.kind is not None and len(body.content) <= SMALL.get(body.type, -1)


async def _accepted(model: Service, body: wire.Body, readers: asyncio.Semaphore) -> Future[list[Ack]]:
    def accept() -> Future[list[Ack]]:
        return model.accept(wire.learn_requests(body, model.kind, model.size))

    if _is_small(model, body):
        return accept()
    async with readers:
        return await run_in_threadpool(accept)


async def _predicted(
    model: Service, body: wire.Body, top: int, keep: bool, readers: asyncio.Semaphore
) -> tuple[dict[str, Any], Future[Any] | None]:
    def samples() -> Any:
        return wire.samples(body, model.kind, model.size)

    if not _is_small(model, body):
        async with readers:
            return await run_in_threadpool(lambda: views.predictions(model, samples(), top, keep))
    x = samples()
    if len(x) * model.prediction_cost <= SHORT:
        return views.predictions(model, x, top, keep)
    return await run_in_threadpool(views.predictions, model, x, top, keep)


async def _reached(models: Models, model: Service, position: int, *, published: bool) -> bool:
    """Wait until `position` samples are learned or published, and return whether that happened within WAIT seconds and before
    the server stops.

    Raises a MnemonError if it can no longer happen."""
    reached = asyncio.wrap_future(model.learning.wait(position, published=published))
    end = time.monotonic() + WAIT
    while not models.stopping and (left := end - time.monotonic()) > 0:
        await asyncio.wait({reached}, timeout=min(left, LOOK))
        if reached.done():
            reached.result()
            return True
    reached.cancel()
    return False


def _errors(api: FastAPI) -> None:
    """Answer every error with problem+json and one sentence."""

    @api.exception_handler(MnemonError)
    async def ours(request: HttpRequest, error: MnemonError) -> Response:
        return answer(error)

    @api.exception_handler(ClientDisconnect)
    async def gone(request: HttpRequest, error: ClientDisconnect) -> Response:
        return problem(400, "the request was cut off.")  # the client is gone and does not read this

    @api.exception_handler(Exception)  # the framework raises the error again after this answer, and uvicorn logs it
    async def unknown(request: HttpRequest, error: Exception) -> Response:
        return problem(500, "an error in the server; its log has the details.")

    @api.exception_handler(RequestValidationError)
    async def invalid(request: HttpRequest, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{where[:200]}: {first['msg']}.")

    @api.exception_handler(HTTPException)
    async def of_the_framework(request: HttpRequest, error: HTTPException) -> Response:
        sentence = SENTENCES.get(error.status_code, f"{error.detail}."[:300])
        return problem(error.status_code, sentence, dict(error.headers or {}))
