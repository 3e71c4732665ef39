"""Metrics for Prometheus, read from the models at each request."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemon.serve.http import views
from mnemon.serve.http.models import Models


class Metrics(Collector):
    """The number of requests, and one metric for each number in a model's status."""

    type = CONTENT_TYPE_LATEST

    def __init__(self, models: Models) -> None:
        self._models = models
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter("mnemon_requests", "HTTP requests", ["route", "status"], registry=self._registry)

    def count(self, route: str, status: int) -> None:
        self._requests.labels(route, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        counters = {
            "acknowledged": CounterMetricFamily("mnemon_samples_acknowledged", "samples on the disk", labels=["model"]),
            "learned": CounterMetricFamily("mnemon_samples_learned", "samples learned or refused", labels=["model"]),
            "published": CounterMetricFamily(
                "mnemon_samples_published", "samples that predictions use", labels=["model"]
            ),
            "commits": CounterMetricFamily(
                "mnemon_commits", "transactions of the journal that contain samples", labels=["model"]
            ),
            "refused": CounterMetricFamily(
                "mnemon_requests_refused", "requests whose loss was not finite", labels=["model"]
            ),
            "drifts": CounterMetricFamily(
                "mnemon_drifts", "times that the samples of a class were noticed to have changed", labels=["model"]
            ),
        }
        gauges = {
            "classes": GaugeMetricFamily("mnemon_classes", "classes", labels=["model"]),
            "waiting": GaugeMetricFamily(
                "mnemon_waiting_bytes", "bytes of samples that wait to be learned", labels=["model"]
            ),
            "rate": GaugeMetricFamily(
                "mnemon_learning_rate", "samples learned per second of learning time", labels=["model"]
            ),
            "accuracy": GaugeMetricFamily(
                "mnemon_accuracy", "test-then-train accuracy over about the last 1,000 samples", labels=["model"]
            ),
            "exam": GaugeMetricFamily(
                "mnemon_exam_accuracy",
                "accuracy on the exam (samples held out of learning), mean over classes",
                labels=["model"],
            ),
            "failed": GaugeMetricFamily("mnemon_failed", "1 if the model accepts no more samples", labels=["model"]),
        }
        for name, model in self._models.opened().items():
            learning, published = model.learning, model.published
            counters["acknowledged"].add_metric([name], model.journal.position)
            counters["learned"].add_metric([name], learning.state.learned)
            counters["published"].add_metric([name], published.learned)
            counters["commits"].add_metric([name], model.journal.commits)
            counters["refused"].add_metric([name], len(learning.state.refused))
            counters["drifts"].add_metric([name], len(published.drifts))
            gauges["classes"].add_metric([name], len(published.labels))
            gauges["waiting"].add_metric([name], learning.waiting_bytes)
            gauges["rate"].add_metric([name], learning.rate)
            gauges["failed"].add_metric([name], float(bool(learning.failed or model.journal.failed)))
            if (accuracy := learning.curve.accuracy(1000)) is not None:
                gauges["accuracy"].add_metric([name], accuracy)
            if (exam := views.exam(model)) is not None:
                gauges["exam"].add_metric([name], exam["accuracy"])
        yield from counters.values()
        yield from gauges.values()


class Counted:
    """ASGI middleware that counts answers. (Starlette's BaseHTTPMiddleware would create tasks and queues per request.)"""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count(getattr(scope.get("route"), "path", "none"), message["status"])
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)
