"""Carries out exchanges in an event loop, over connections that are kept open. HTTP/1.1, as much of it as the service speaks."""
from __future__ import annotations

import asyncio
import ssl
import weakref
from typing import AsyncIterator, Dict, List, MutableMapping, Optional, Tuple
from urllib.parse import urlsplit

from .exchange import Flow, Pause, Request, Response, Unreachable, Value

#: Idle connections kept for one address.
_KEPT = 16
_PART_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024

_Address = Tuple[str, str, int]
_Idle = Dict[_Address, List["_Connection"]]


class _BrokenAnswer(Exception):
    """What came is no HTTP answer."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()


# A connection belongs to the loop it was opened in.
_idle: MutableMapping[asyncio.AbstractEventLoop, _Idle] = weakref.WeakKeyDictionary()


async def run(flow: Flow[Value]) -> Value:
    """Carries out a call to its value; cancelling it ends it at once."""
    try:
        action = next(flow)
        while True:
            if isinstance(action, Pause):
                await asyncio.sleep(action.seconds)
                action = flow.send(None)
                continue
            try:
                response = await asyncio.wait_for(_send(action), action.timeout)
            except (asyncio.TimeoutError, OSError, EOFError, _BrokenAnswer) as error:
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
                # It was broken already.
                continue


def _unreachable(error: BaseException, timeout: float) -> Unreachable:
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        text = "no answer within %g s" % timeout
    elif isinstance(error, asyncio.IncompleteReadError):
        text = "the connection was closed before the answer was whole"
    else:
        text = str(error) or type(error).__name__
    found = Unreachable(text)
    found.__cause__ = error
    return found


async def _send(request: Request) -> Response:
    parts = urlsplit(request.url)
    secure = parts.scheme == "https"
    address = (parts.scheme, parts.hostname or "", parts.port or (443 if secure else 80))
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    head = "%s %s HTTP/1.1\r\nhost: %s\r\n" % (request.method, target, parts.netloc.rpartition("@")[2])
    for name, value in request.headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError("the header %s must not hold a line's end" % name)
        head += "%s: %s\r\n" % (name, value)
    body = request.body or b""
    if request.body is not None or request.method != "GET":
        head += "content-length: %d\r\n" % len(body)
    data = (head + "\r\n").encode("latin-1") + body
    kept = _idle.setdefault(asyncio.get_running_loop(), {}).get(address, [])
    while kept:
        connection = kept.pop()
        if connection.reader.at_eof():
            connection.close()
            continue
        try:
            return await _exchange(connection, address, request, data)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if not request.repeatable or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                raise
            # The other side closed it in that moment: nothing was answered, a fresh one does it.
            break
    reader, writer = await asyncio.open_connection(
        address[1], address[2], ssl=ssl.create_default_context() if secure else None, limit=_MAX_HEAD_BYTES
    )
    return await _exchange(_Connection(reader, writer), address, request, data)


async def _exchange(connection: _Connection, address: _Address, request: Request, data: bytes) -> Response:
    whole = False
    handed = False
    try:
        connection.writer.write(data)
        await connection.writer.drain()
        status, headers, keeps = await _read_head(connection.reader)
        while 100 <= status < 200:
            status, headers, keeps = await _read_head(connection.reader)
        parts, bounded = _body(connection.reader, request.method, status, headers)
        if request.streams and 200 <= status < 300:
            handed = True
            return Response(status, headers, b"", _rest(connection, address, parts, keeps and bounded, request.timeout))
        body = b"".join([part async for part in parts])
        whole = keeps and bounded
        return Response(status, headers, body)
    finally:
        if not handed:
            _put_back(connection, address, whole)


async def _rest(connection: _Connection, address: _Address, parts: AsyncIterator[bytes], keeps: bool, timeout: float) -> AsyncIterator[bytes]:
    """The body as it comes; a connection that is not read to its end is closed."""
    whole = False
    try:
        while True:
            try:
                part = await asyncio.wait_for(parts.__anext__(), timeout)
            except StopAsyncIteration:
                break
            except (asyncio.TimeoutError, OSError, EOFError, _BrokenAnswer) as error:
                raise _unreachable(error, timeout) from error
            yield part
        whole = keeps
    finally:
        _put_back(connection, address, whole)


def _put_back(connection: _Connection, address: _Address, whole: bool) -> None:
    kept = _idle.setdefault(asyncio.get_running_loop(), {}).setdefault(address, [])
    if whole and len(kept) < _KEPT:
        kept.append(connection)
    else:
        connection.close()


async def _read_head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str], bool]:
    """Status, headers, and whether the connection stays open."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _BrokenAnswer("the answer's headers are too long") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise _BrokenAnswer("the answer is not HTTP")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    keeps = "close" not in headers.get("connection", "").lower() and (words[0] != "HTTP/1.0" or "keep-alive" in headers.get("connection", "").lower())
    return int(words[1]), headers, keeps


def _body(reader: asyncio.StreamReader, method: str, status: int, headers: Dict[str, str]) -> Tuple[AsyncIterator[bytes], bool]:
    """The body as it comes, and whether its end is told other than by the connection's."""
    if method == "HEAD" or status in (204, 304):
        return _read_parts(reader, 0), True
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _read_chunks(reader), True
    length = _length(headers.get("content-length"))
    return _read_parts(reader, length), length is not None


async def _read_parts(reader: asyncio.StreamReader, length: Optional[int]) -> AsyncIterator[bytes]:
    """So many bytes; all there are when that is not known."""
    left = length
    while left is None or left > 0:
        part = await reader.read(_PART_BYTES if left is None else min(left, _PART_BYTES))
        if not part:
            if left is not None:
                raise _BrokenAnswer("the connection was closed before the answer was whole")
            return
        if left is not None:
            left -= len(part)
        yield part


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = _hex(await reader.readuntil(b"\r\n"))
        if size == 0:
            break
        async for part in _read_parts(reader, size):
            yield part
        await reader.readexactly(2)
    # Trailers, of which none is of interest.
    while await reader.readuntil(b"\r\n") != b"\r\n":
        continue


def _hex(line: bytes) -> int:
    try:
        return int(line.split(b";")[0].strip(), 16)
    except ValueError:
        raise _BrokenAnswer("the answer's chunks are broken") from None


def _length(header: Optional[str]) -> Optional[int]:
    if header is None:
        return None
    if not header.isdigit():
        raise _BrokenAnswer("the answer's length is no number")
    return int(header)
