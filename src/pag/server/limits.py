"""What a server accepts, and what it answers when something is too much."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    queue: int = 1024  # requests that may wait for each model
    batch: int = 64  # hypotheses (requests × beam) that are searched together
    window: float = 0.003  # seconds that a request waits for others to join its batch
    body: int = 65_536  # bytes of a request
    seconds: float = 30.0  # from a request's arrival to its answer; also the longest wait for its body
    beam: int = 32  # widest beam, and longest n-best list
    values: int = 2_000_000  # numbers of one answer: beyond it plans and gates are left out


class Refusal(Exception):  # noqa: N818
    """A request that is answered with an error: an HTTP status, a word for programs and a line for people."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    @property
    def body(self) -> dict[str, dict[str, str]]:
        return {"error": {"code": self.code, "message": self.message}}

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
