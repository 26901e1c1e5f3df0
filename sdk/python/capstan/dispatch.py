"""One call of a function of another endpoint, as an exchange: manifest, control plane, target."""
from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import quote, urlencode

from . import jobs
from .abandon import cancel_submitted, cancelling
from .chunks import JSON_LINES, value_of
from .errors import ApiError, ConnectionFailed, DispatchError, NotFound, RemoteError
from .exchange import Connection, Flow, Response, exchange, to_json
from .jobs import Submission
from .manifest import own_manifest
from .peers import Peer, peers
from .retry import RetryPolicy
from .routes import parameter_of

#: Time limit of a load-balanced endpoint, seconds: its own limits (2 minutes of waiting, 5.5 minutes of work) apply
#: first.
ROUTE_TIMEOUT = 480.0


def worker_connection() -> Connection:
    """Returns the connection of this worker to the service. Raises DispatchError outside of deployed workers."""
    url = os.environ.get("CAPSTAN_URL")
    token = os.environ.get("CAPSTAN_WORKER_TOKEN") or os.environ.get("SERVICE_API_KEY")
    for name, value in (("CAPSTAN_URL", url), ("CAPSTAN_WORKER_TOKEN", token)):
        if not value:
            raise DispatchError(f"{name} is not set: only deployed workers can call functions of other endpoints")
    return Connection(base_url=str(url).rstrip("/"), api_key=str(token), retry=RetryPolicy(), timeout=30.0)


def environment() -> str:
    """Returns the name of the worker's environment."""
    return os.environ.get("CAPSTAN_ENVIRONMENT") or "default"


@dataclass(frozen=True)
class Arguments:
    """Arguments of one call, by name."""

    by_name: Mapping[str, Any]
    #: Name of the argument that is the whole input, or the whole body of a request.
    body: Optional[str] = None
    #: Method of a class.
    method: Optional[str] = None

    def input(self) -> Dict[str, Any]:
        """Returns the input of a job. Raises TypeError for a whole input that is not an object."""
        given = dict(self.by_name) if self.body is None else self._whole(self.body)
        return given if self.method is None else {"method": self.method, **given}

    def _whole(self, name: str) -> Dict[str, Any]:
        value = self.by_name.get(name)
        given = {} if value is None else plain_object(value)
        if given is None:
            raise TypeError(f"the argument {name} must be a model or a dict")
        return given


def plain_object(value: Any) -> Optional[Dict[str, Any]]:
    """Returns a dict or a model as the JSON object that is sent for it; None for any other value. Raises NotJson."""
    plain = value if isinstance(value, dict) else json.loads(to_json({"it": value}, "the input"))["it"]
    return dict(plain) if isinstance(plain, dict) else None


def invoke(function: str, arguments: Arguments, endpoint: Optional[str] = None) -> Flow[Any]:
    """
    Calls a function and returns its value. ``endpoint`` is the name of the endpoint that
    serves it; the manifest has it. Raises RemoteError with the function's message, DispatchError, ApiError,
    ConnectionFailed.
    """

    def at(connection: Connection, peer: Peer) -> Flow[Any]:
        if peer.is_load_balanced:
            response, call = yield from _request(connection, peer, function, arguments, False)
            return value_of(call, response.headers, response.body)
        return (yield from _run_job(connection, peer, function, arguments.input()))

    return (yield from _where_it_is(function, endpoint, at))


def run_at(endpoint: str, input: Mapping[str, Any]) -> Flow[Any]:
    """Runs a job at the endpoint of this name and returns its result. Raises what :func:`invoke` raises."""

    def at(connection: Connection, peer: Peer) -> Flow[Any]:
        _must_take_jobs(peer)
        return (yield from _run_job(connection, peer, "run_sync", input))

    return (yield from _where_it_is("run_sync", endpoint, at))


def find(endpoint: str) -> Flow[Tuple[Connection, Peer]]:
    """Finds the endpoint of this name. Raises DispatchError when there is none; ApiError, ConnectionFailed."""
    connection = worker_connection()
    return connection, (yield from peers.find(connection, environment(), endpoint))


def find_queue(endpoint: str) -> Flow[Tuple[Connection, Peer]]:
    """
    As :func:`find`, for an endpoint that accepts jobs. Raises DispatchError also for an endpoint that serves requests.
    """
    connection, peer = yield from find(endpoint)
    _must_take_jobs(peer)
    return connection, peer


def _must_take_jobs(peer: Peer) -> None:
    if peer.is_load_balanced:
        raise DispatchError(f"the endpoint {peer.name} is load-balanced: it serves requests at {peer.url}, not jobs")


def begin_stream(function: str, arguments: Arguments, endpoint: Optional[str] = None) -> Flow[Union["JobStream", "RouteStream"]]:
    """Starts a call of a generator, whose chunks are then read. Raises what :func:`invoke` raises."""

    def at(connection: Connection, peer: Peer) -> Flow[Union[JobStream, RouteStream]]:
        if peer.is_load_balanced:
            response, call = yield from _request(connection, peer, function, arguments, True)
            return RouteStream(call, response)
        submitted = yield from jobs.submit(connection, jobs.endpoint_path(peer.id), arguments.input(), Submission())
        return JobStream(connection, peer, submitted.id)

    return (yield from _where_it_is(function, endpoint, at))


@dataclass(frozen=True)
class JobStream:
    """A generator that runs as a job."""

    connection: Connection
    peer: Peer
    job_id: str


@dataclass(frozen=True)
class RouteStream:
    """A generator that answers a request; ``response.rest`` is its incoming body."""

    call: str
    response: Response


Value = TypeVar("Value")


def _where_it_is(function: str, endpoint: Optional[str], at: Callable[[Connection, Peer], Flow[Value]]) -> Flow[Value]:
    connection = worker_connection()
    name = endpoint or own_manifest().endpoint_of(function)
    known = peers.get(connection.base_url, environment(), name)
    if known is not None:
        try:
            return (yield from at(connection, known))
        except (NotFound, ConnectionFailed, RemoteError) as error:
            if isinstance(error, RemoteError) and error.status != 404:
                raise
            # It may have been redeployed with another id and URL.
            peers.drop(connection.base_url, environment(), name)
            fresh = yield from peers.find(connection, environment(), name)
            if fresh == known:
                raise
            return (yield from at(connection, fresh))
    return (yield from at(connection, (yield from peers.find(connection, environment(), name))))


def _run_job(connection: Connection, peer: Peer, function: str, arguments: Mapping[str, Any]) -> Flow[Any]:
    path = jobs.endpoint_path(peer.id)
    submission = Submission(idempotency_key=str(uuid.uuid4()))
    with cancelling(lambda: cancel_submitted(connection, path, arguments, submission)):
        snapshot = yield from jobs.submit_and_wait(connection, path, arguments, submission, None)
    if snapshot.status != "COMPLETED":
        raise RemoteError(snapshot.error or f"the job ended {snapshot.status}", function, peer.name, job_id=snapshot.id)
    return snapshot.output


def _request(connection: Connection, peer: Peer, function: str, arguments: Arguments, streams: bool) -> Flow[Tuple[Response, str]]:
    """Returns the response of a route, and the call's name for errors."""
    method, template = own_manifest().route_of(peer.name, function)
    path, body = request_of(method, template, arguments.by_name, arguments.body)
    try:
        response: Response = yield from exchange(
            replace(connection, base_url=peer.url, timeout=ROUTE_TIMEOUT),
            method,
            path,
            body=body,
            headers={"accept": f"{JSON_LINES}, */*;q=0.1"} if streams else None,
            accepts=lambda status: 200 <= status < 300,
            # After any other error the function may have run, and must not run twice.
            repeats=lambda status: status in (429, 503),
            repeats_when_unreachable=method in ("GET", "HEAD"),
            streams=streams,
        )
    except ApiError as refused:
        # Errors of the service itself on such a URL have the same form as the function's own errors.
        raise RemoteError(refused.detail or str(refused), function, peer.name, status=refused.status) from refused
    return response, f"{method} {path}"


def request_of(method: str, template: str, arguments: Mapping[str, Any], whole: Optional[str] = None) -> Tuple[str, Any]:
    """
    Returns the path with query, and the body, that carry the arguments of a route's function. ``whole``: the argument
    that is the body; the others are then in the path or the query. Raises DispatchError.
    """
    rest = dict(arguments)
    body = rest.pop(whole, None) if whole is not None else None
    segments = []
    for segment in template.split("/"):
        name = parameter_of(segment)
        if name is None:
            segments.append(segment)
            continue
        if name not in rest:
            raise DispatchError(f"the argument {name} is required: it is part of the path {template}")
        segments.append(quote(_text(rest.pop(name)), safe=""))
    path = "/".join(segments)
    if method not in ("GET", "HEAD", "DELETE") and whole is None:
        return path, rest
    query = urlencode([(key, each) for key, value in rest.items() if value is not None for each in _texts(value)])
    return path + (f"?{query}" if query else ""), body


def _texts(value: Any) -> Sequence[str]:
    """Encodes an argument for a query: several values repeat its name, as the function reads them."""
    return [_text(each) for each in value] if isinstance(value, (list, tuple, set, frozenset)) else [_text(value)]


def _text(value: Any) -> str:
    """Encodes a value for a path or a query: text unchanged, anything else as JSON, whose text has no quotes."""
    if isinstance(value, str):
        return value
    text = to_json(value, "an argument").decode()
    return str(json.loads(text)) if text.startswith('"') else text
