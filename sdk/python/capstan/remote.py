"""
Stubs: in a worker, they replace the functions and classes of other endpoints. A build writes them as modules, and a
decorator returns one for a function or class of another endpoint::

    embed = capstan.remote.stub("embed", parameters=("text",), is_async=True)
"""
from __future__ import annotations

import contextlib
import functools
from typing import Any, AsyncIterator, Callable, Dict, Iterator, Mapping, Optional, Sequence, Union

from . import aio, http_async, http_sync, jobs
from .abandon import cancel_job, cancelling
from .chunks import ChunkReader
from .client import EndpointClient
from .dispatch import Arguments, JobStream, RouteStream, begin_stream, invoke, plain_object
from .errors import ConnectionFailed, DispatchError, JobError, RemoteError
from .exchange import Flow, Unreachable
from .functions import FunctionDeclaration, Shape

Stub = Callable[..., Any]


def stub(
    function: str,
    *,
    parameters: Optional[Sequence[str]] = None,
    is_async: bool = False,
    is_generator: bool = False,
    whole: bool = False,
    body: Optional[str] = None,
    endpoint: Optional[str] = None,
) -> Stub:
    """
    Returns a function that calls another endpoint's function. ``parameters``: names in order; without them arguments
    are passed by name. ``whole``: its only argument is the input itself. ``body``: name of the parameter that is the
    whole input or body. ``endpoint``: name of the endpoint, if the manifest does not have it. The call raises
    RemoteError with the function's own message.
    """
    return _stub(function, Shape(None if parameters is None else tuple(parameters), is_async, is_generator, whole, body), endpoint, None)


def stub_class(name: str, methods: Mapping[str, Union[Shape, Mapping[str, Any]]], *, endpoint: Optional[str] = None) -> type:
    """
    Returns a class whose methods call those of another endpoint's class. The workers construct their own instance,
    without arguments. ``methods``: for each method the arguments of :func:`stub`.
    """

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise DispatchError(f"{name} runs at another endpoint, whose workers construct it; construct it without arguments here")

    members: Dict[str, Any] = {"__init__": make, "__doc__": "Runs at another endpoint."}
    for method, described in methods.items():
        shape = described if isinstance(described, Shape) else _shape(described)
        members[method] = _stub(name, shape, endpoint, method)
    return type(name, (), members)


def stub_of(declared: FunctionDeclaration) -> Union[Stub, type]:
    """Returns the stub of a function or class that another endpoint declared in this process."""
    endpoint = declared.endpoint.name
    if declared.is_class:
        made: Any = stub_class(declared.name, declared.methods, endpoint=endpoint)
    else:
        made = functools.update_wrapper(_stub(declared.name, declared.shape, endpoint, None), declared.target)
    made.__capstan__ = declared
    return made  # type: ignore[no-any-return]


def _shape(described: Mapping[str, Any]) -> Shape:
    parameters = described.get("parameters")
    return Shape(
        None if parameters is None else tuple(parameters),
        bool(described.get("is_async")),
        bool(described.get("is_generator")),
        bool(described.get("whole")),
        described.get("body"),
    )


def _stub(function: str, shape: Shape, endpoint: Optional[str], method: Optional[str]) -> Stub:
    def input_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        # A method's first argument is its instance, which is not sent.
        given = arguments_of(method or function, shape, args[1:] if method is not None else args, kwargs)
        return Arguments(given, shape.body, method)

    if shape.is_async and shape.is_generator:

        def streams(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            return _chunks_async(function, input_of(args, kwargs), endpoint)

        made: Stub = streams
    elif shape.is_generator:

        def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
            return _chunks(function, input_of(args, kwargs), endpoint)

        made = stream
    elif shape.is_async:

        async def calls(*args: Any, **kwargs: Any) -> Any:
            return await http_async.run(invoke(function, input_of(args, kwargs), endpoint))

        made = calls
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return http_sync.run(invoke(function, input_of(args, kwargs), endpoint))

        made = call
    made.__name__ = made.__qualname__ = method or function
    return made


def arguments_of(function: str, shape: Shape, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns a call's arguments by name. Raises TypeError, as the function itself would."""
    if shape.whole and len(args) + len(kwargs) == 1:
        value = args[0] if args else kwargs.get("input")
        value = plain_object(value)
        if value is None:
            raise TypeError(f"{function}() takes its input, a dict")
        return value
    if shape.parameters is None:
        if args:
            raise TypeError(f"{function}() runs at another endpoint, and takes its arguments by name")
        return dict(kwargs)
    if len(args) > len(shape.parameters):
        raise TypeError(f"{function}() takes {len(shape.parameters)} arguments, not {len(args)}")
    given = dict(zip(shape.parameters, args))
    for key, value in kwargs.items():
        if key in given:
            raise TypeError(f"{function}() got multiple values for the argument {key}")
        if key not in shape.parameters:
            raise TypeError(f"{function}() got an unexpected argument {key}")
        given[key] = value
    return given


def _chunks(function: str, given: Arguments, endpoint: Optional[str]) -> Iterator[Any]:
    begun = http_sync.run(begin_stream(function, given, endpoint))
    if isinstance(begun, RouteStream):
        reader = ChunkReader(begun.call, begun.response.headers)
        # Closed with this generator: the peer then notices the disconnection and stops its function.
        with contextlib.closing(begun.response.rest) as parts:
            try:
                for part in parts:
                    yield from reader.feed(part)
            except Unreachable as broken:
                raise _broken_off(begun.call, broken) from broken
        yield from reader.end()
        return
    job = EndpointClient(begun.peer.id, api_key=begun.connection.api_key, base_url=begun.connection.base_url).job(begun.job_id)
    with cancelling(_cancels(begun)):
        try:
            yield from job.stream()
        except JobError as error:
            raise _remote(error, function, begun.peer.name) from error


async def _chunks_async(function: str, given: Arguments, endpoint: Optional[str]) -> AsyncIterator[Any]:
    begun = await http_async.run(begin_stream(function, given, endpoint))
    if isinstance(begun, RouteStream):
        reader = ChunkReader(begun.call, begun.response.headers)
        try:
            async for part in begun.response.rest:
                for chunk in reader.feed(part):
                    yield chunk
        except Unreachable as broken:
            raise _broken_off(begun.call, broken) from broken
        finally:
            await begun.response.rest.aclose()
        for chunk in reader.end():
            yield chunk
        return
    job = aio.Endpoint(begun.peer.id, api_key=begun.connection.api_key, base_url=begun.connection.base_url).job(begun.job_id)
    with cancelling(_cancels(begun)):
        try:
            async for chunk in job.stream():
                yield chunk
        except JobError as error:
            raise _remote(error, function, begun.peer.name) from error


def _cancels(begun: JobStream) -> Callable[[], Flow[Any]]:
    return lambda: cancel_job(begun.connection, jobs.endpoint_path(begun.peer.id), begun.job_id)


def _broken_off(call: str, broken: Unreachable) -> ConnectionFailed:
    return ConnectionFailed(f"{call}: the stream ended early: {broken}")


def _remote(error: JobError, function: str, endpoint: str) -> RemoteError:
    return RemoteError(error.error or f"the job ended {error.status}", function, endpoint, job_id=error.job_id)
