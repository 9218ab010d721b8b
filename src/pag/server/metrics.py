"""What the server counts, in the text format of Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """One registry per server, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("pag_requests", "Answers sent", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "pag_request_seconds", "From a request's arrival to its answer", ["route"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.batches = Histogram(
            "pag_batch_requests", "Requests that ran together", ["model"], buckets=SIZES, registry=self.registry
        )
        self.batch_seconds = Counter("pag_batch_seconds", "Time spent in batches", ["model"], registry=self.registry)
        self.tokens = Counter("pag_output_tokens", "Tokens of best outputs", ["model"], registry=self.registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def batch(self, model: str, size: int, seconds: float) -> None:
        self.batches.labels(model).observe(size)
        self.batch_seconds.labels(model).inc(seconds)

    def watch_queues(self, lengths: Callable[[], dict[str, int]]) -> None:
        self.registry.register(_Queues(lengths))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Queues(Collector):
    """How many requests wait, asked when the metrics are."""

    def __init__(self, lengths: Callable[[], dict[str, int]]) -> None:
        self.lengths = lengths

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("pag_queue_requests", "Requests that wait for a model", labels=["model"])
        for name, length in self.lengths().items():
            family.add_metric([name], length)
        yield family
