"""Runs exchanges in an event loop, over connections that are kept open."""
from __future__ import annotations

import asyncio
import ssl
import weakref
from typing import AsyncIterator, Dict, List, MutableMapping, Optional, Tuple

from .exchange import Address, Flow, Pause, Request, Response, Unreachable, Value, no_answer_within
from .http1 import BROKEN_OFF, MAX_HEAD_BYTES, BrokenAnswer, Head, body_bytes, chunk_bytes, is_chunked, read_head, request_bytes

#: Idle connections kept per address.
_KEPT = 16
_PART_BYTES = 64 * 1024

_Idle = Dict[Address, List["_Connection"]]


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()


# A connection belongs to the event loop in which it was opened.
_idle: MutableMapping[asyncio.AbstractEventLoop, _Idle] = weakref.WeakKeyDictionary()


async def run(flow: Flow[Value]) -> Value:
    """Runs a call and returns its value; cancelling it ends it immediately."""
    try:
        action = next(flow)
        while True:
            if isinstance(action, Pause):
                await asyncio.sleep(action.seconds)
                action = flow.send(None)
                continue
            try:
                response = await asyncio.wait_for(_send(action), action.timeout)
            except (asyncio.TimeoutError, OSError, EOFError, BrokenAnswer) as error:
                action = flow.throw(_unreachable(error, action.timeout))
            else:
                action = flow.send(response)
    except StopIteration as end:
        value: Value = end.value
        return value
    finally:
        flow.close()


async def close() -> None:
    """Closes the idle connections of this event loop; the next call opens new ones."""
    for kept in _idle.pop(asyncio.get_running_loop(), {}).values():
        for connection in kept:
            connection.close()
            try:
                await connection.writer.wait_closed()
            except OSError:
                # It was already broken.
                continue


def _unreachable(error: BaseException, timeout: float) -> Unreachable:
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        text = no_answer_within(timeout)
    elif isinstance(error, asyncio.IncompleteReadError):
        text = BROKEN_OFF
    else:
        text = str(error) or type(error).__name__
    return Unreachable(text, error)


async def _send(request: Request) -> Response:
    data = request_bytes(request)
    kept = _idle.setdefault(asyncio.get_running_loop(), {}).get(request.address, [])
    while kept:
        connection = kept.pop()
        if connection.reader.at_eof():
            connection.close()
            continue
        try:
            return await _exchange(connection, request, data)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if not request.repeatable or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                raise
            # The peer closed it at the same moment: there was no response, so a new connection is used.
            break
    return await _exchange(await _connect(request.address), request, data)


async def _connect(address: Address) -> _Connection:
    secure = ssl.create_default_context() if address.scheme == "https" else None
    return _Connection(*await asyncio.open_connection(address.host, address.port, ssl=secure, limit=MAX_HEAD_BYTES))


async def _exchange(connection: _Connection, request: Request, data: bytes) -> Response:
    whole = False
    handed = False
    try:
        connection.writer.write(data)
        await connection.writer.drain()
        head = await _read_head(connection.reader)
        while head.is_interim:
            head = await _read_head(connection.reader)
        parts, bounded = _body(connection.reader, request, head)
        if request.streams and 200 <= head.status < 300:
            handed = True
            return Response(head.status, head.headers, b"", _rest(connection, request, parts, head.keeps and bounded))
        body = b"".join([part async for part in parts])
        whole = head.keeps and bounded
        return Response(head.status, head.headers, body)
    finally:
        if not handed:
            _put_back(connection, request.address, whole)


async def _rest(connection: _Connection, request: Request, parts: AsyncIterator[bytes], keeps: bool) -> AsyncIterator[bytes]:
    """Yields the body as it arrives; closes a connection that is not read to its end."""
    whole = False
    try:
        while True:
            try:
                part = await asyncio.wait_for(parts.__anext__(), request.timeout)
            except StopAsyncIteration:
                break
            except (asyncio.TimeoutError, OSError, EOFError, BrokenAnswer) as error:
                raise _unreachable(error, request.timeout) from error
            yield part
        whole = keeps
    finally:
        _put_back(connection, request.address, whole)


def _put_back(connection: _Connection, address: Address, whole: bool) -> None:
    kept = _idle.setdefault(asyncio.get_running_loop(), {}).setdefault(address, [])
    if whole and len(kept) < _KEPT:
        kept.append(connection)
    else:
        connection.close()


async def _read_head(reader: asyncio.StreamReader) -> Head:
    try:
        return read_head(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise BrokenAnswer("the headers of the response are too long") from None


def _body(reader: asyncio.StreamReader, request: Request, head: Head) -> Tuple[AsyncIterator[bytes], bool]:
    """Returns the incoming body, and whether its end is known without the connection's end."""
    if is_chunked(request, head):
        return _read_chunks(reader), True
    size = body_bytes(request, head)
    return _read_parts(reader, size), size is not None


async def _read_parts(reader: asyncio.StreamReader, length: Optional[int]) -> AsyncIterator[bytes]:
    """Yields this many bytes; all bytes if the number is unknown."""
    left = length
    while left is None or left > 0:
        part = await reader.read(_PART_BYTES if left is None else min(left, _PART_BYTES))
        if not part:
            if left is not None:
                raise BrokenAnswer(BROKEN_OFF)
            return
        if left is not None:
            left -= len(part)
        yield part


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = chunk_bytes(await reader.readuntil(b"\r\n"))
        if size == 0:
            break
        async for part in _read_parts(reader, size):
            yield part
        await reader.readexactly(2)
    # Trailers are ignored.
    while await reader.readuntil(b"\r\n") != b"\r\n":
        continue
