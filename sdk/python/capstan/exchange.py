"""
Calls of the HTTP API as generators without I/O: they yield actions (a request, a pause) and receive the response. One
driver runs them with blocking threads (:mod:`capstan.http_sync`), another with asyncio (:mod:`capstan.http_async`), so
that both SDKs retry, wait and fail in the same way.
"""
from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generator, Mapping, NamedTuple, Optional, TypeVar, Union
from urllib.parse import urlsplit

from .errors import ApiError, CapstanError, ConnectionFailed, Timeout, api_error_class
from .json_values import NotJson, to_bytes
from .retry import RetryPolicy, is_retryable, pause_before, seconds_of
from .trace import current_trace_headers
from .unreachable import connection_failed, note_retry

Value = TypeVar("Value")


class Address(NamedTuple):
    """Target of a connection; calls of one address share connections."""

    #: http or https.
    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: Optional[bytes]
    #: Seconds for the whole exchange.
    timeout: float
    #: The driver may send it again when a kept connection turns out to be closed; that does not count as an attempt.
    repeatable: bool
    #: A successful response's body is not read but handed over.
    streams: bool = False

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        return Address(parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))

    @property
    def target(self) -> str:
        """Path and query."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Response:
    status: int
    #: Names in lower case.
    headers: Mapping[str, str]
    body: bytes
    #: Of a streaming request: the incoming body, an iterator of bytes or, under asyncio, an asynchronous one. Either
    #: raises Unreachable.
    rest: Any = None


class Unreachable(Exception):
    """There was no response; the message has the reason. Drivers raise it into the generator."""

    def __init__(self, text: str, cause: Optional[BaseException] = None) -> None:
        super().__init__(text)
        self.__cause__ = cause


def no_answer_within(seconds: float) -> str:
    return f"no response within {seconds:g} s"


#: A call: yields the next action, receives its response, and returns the value.
Flow = Generator[Union[Request, Pause], Optional[Response], Value]


@dataclass(frozen=True)
class Connection:
    """
    Target and options of calls; created for each call, so that a changed ``capstan.api_key`` takes effect immediately.
    """

    #: Without a trailing slash.
    base_url: str
    api_key: str
    retry: RetryPolicy
    #: Timeout of one attempt, seconds, in addition to the wait that it requests.
    timeout: float

    def __repr__(self) -> str:
        # Without the key.
        return f"Connection({self.base_url!r})"


class Deadline:
    """The deadline of a call."""

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> Optional[float]:
        """Returns the remaining seconds, 0 when it is over; None without a deadline."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def is_over(self) -> bool:
        return self._end is not None and self._end <= time.monotonic()


def call(
    connection: Connection,
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: Optional[Mapping[str, str]] = None,
    wait: float = 0.0,
    deadline: Optional[Deadline] = None,
) -> Flow[Any]:
    """Returns the parsed response of :func:`exchange`. Raises what that raises."""
    response = yield from exchange(connection, method, path, body=body, headers=headers, wait=wait, deadline=deadline)
    return parsed(f"{method} {path}", response.body)


def exchange(
    connection: Connection,
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: Optional[Mapping[str, str]] = None,
    wait: float = 0.0,
    deadline: Optional[Deadline] = None,
    accepts: Callable[[int], bool] = lambda status: status == 200,
    repeats: Callable[[int], bool] = is_retryable,
    repeats_when_unreachable: bool = True,
    streams: bool = False,
) -> Flow[Response]:
    """
    Makes the call until a response is accepted. Retries the statuses in ``repeats`` (429 and 5xx) and broken
    connections. ``wait`` is how long the service may hold the response, in seconds. Raises ApiError, ConnectionFailed
    and Timeout.
    """
    name = f"{method} {path}"
    data = None if body is None else to_json(body, "the input")
    sent: Dict[str, str] = {"authorization": f"Bearer {connection.api_key}", "user-agent": "capstan-python", "accept": "application/json"}
    if data is not None:
        sent["content-type"] = "application/json"
    sent.update(current_trace_headers())
    sent.update(headers or {})
    repeatable = repeats_when_unreachable and (method == "GET" or "idempotency-key" in sent)
    attempt = 0
    while True:
        timeout = connection.timeout + wait
        left = None if deadline is None else deadline.left()
        if left is not None:
            if left <= 0:
                raise Timeout(f"{name}: {no_answer_within(deadline.seconds or 0)}")  # type: ignore[union-attr]
            timeout = min(timeout, left)
        failure: CapstanError
        retry_after: Optional[float] = None
        try:
            response = yield Request(method, connection.base_url + path, sent, data, timeout, repeatable, streams)
        except Unreachable as error:
            failure = connection_failed(name, connection.base_url, str(error), error.__cause__)
            again = repeats_when_unreachable
        else:
            assert response is not None
            if accepts(response.status):
                return response
            failure = refusal(name, response, attempt + 1)
            retry_after = failure.retry_after
            again = repeats(response.status)
        pause = pause_before(connection.retry, attempt, retry_after, random.random()) if again else None
        if pause is None:
            raise failure
        left = None if deadline is None else deadline.left()
        # A pause that leaves no time for another attempt would only delay the error.
        if left is not None and pause >= left:
            raise Timeout(f"{name}: {no_answer_within(deadline.seconds or 0)}") from failure  # type: ignore[union-attr]
        if attempt == 0:
            note_retry(connection.base_url, failure, connection.retry.retries)
        yield Pause(pause)
        attempt += 1


def to_json(value: Any, what: str) -> bytes:
    """Encodes an object as JSON by the table of docs/values.md. Raises NotJson, a TypeError and a ValueError."""
    try:
        return to_bytes(value, "")
    except NotJson as error:
        raise NotJson(f"{what} is not JSON: {error}") from None


def refusal(name: str, response: Response, attempts: int) -> ApiError:
    """Returns the error of a response other than 200."""
    try:
        problem = json.loads(response.body)
    except ValueError:
        # Possibly a proxy's page; the status is sufficient.
        problem = None
    words = problem if isinstance(problem, dict) else {}
    title, detail = words.get("title"), words.get("detail")
    if detail is None and 300 <= response.status < 400:
        detail = f"the response is a redirect to {response.headers.get('location', 'another URL')}; redirects are not followed, because they would disclose the key"
    return api_error_class(response.status)(
        name,
        response.status,
        title if isinstance(title, str) else None,
        detail if isinstance(detail, str) else None,
        seconds_of(response.headers.get("retry-after")),
        attempts,
    )


def parsed(name: str, body: bytes) -> Any:
    """Returns the response's JSON. Raises ConnectionFailed when it is invalid."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise ConnectionFailed(f"{name}: the response is not JSON") from error
