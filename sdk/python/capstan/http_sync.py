"""Carries out exchanges with connections that are kept open, from any thread."""
from __future__ import annotations

import http.client
import os
import selectors
import ssl
import threading
import time
from typing import Dict, Iterator, List, Optional, Tuple
from urllib.parse import urlsplit

from .exchange import Flow, Pause, Request, Response, Unreachable, Value

#: Idle connections kept for one address.
_KEPT = 16
_PART_BYTES = 64 * 1024

_Address = Tuple[str, str, int]


class _Pool:
    """Idle connections by address. A forked child starts with none: the parent's are not its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: Dict[_Address, List[http.client.HTTPConnection]] = {}
        self._owner = os.getpid()

    def take(self, address: _Address) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            self._disown()
            kept = self._idle.get(address)
            while kept:
                connection = kept.pop()
                if not _is_closed(connection):
                    return connection
                connection.close()
            return None

    def give(self, address: _Address, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._disown()
            kept = self._idle.setdefault(address, [])
            if len(kept) < _KEPT:
                kept.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for kept in idle.values():
            for connection in kept:
                connection.close()

    def _disown(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._idle = {}


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """An idle connection has something to read only when the other side has ended it."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


_pool = _Pool()


def run(flow: Flow[Value]) -> Value:
    """Carries out a call to its value."""
    try:
        action = next(flow)
        while True:
            if isinstance(action, Pause):
                time.sleep(action.seconds)
                action = flow.send(None)
                continue
            try:
                response = _send(action)
            except (OSError, http.client.HTTPException) as error:
                action = flow.throw(_unreachable(error, action.timeout))
            else:
                action = flow.send(response)
    except StopIteration as end:
        value: Value = end.value
        return value
    finally:
        flow.close()


def close() -> None:
    """Closes the idle connections; the next call opens new ones."""
    _pool.close()


def _unreachable(error: Exception, timeout: float) -> Unreachable:
    text = "no answer within %g s" % timeout if isinstance(error, TimeoutError) or "timed out" in str(error) else str(error) or type(error).__name__
    found = Unreachable(text)
    found.__cause__ = error
    return found


def _send(request: Request) -> Response:
    parts = urlsplit(request.url)
    secure = parts.scheme == "https"
    address = (parts.scheme, parts.hostname or "", parts.port or (443 if secure else 80))
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    connection = _pool.take(address)
    if connection is not None:
        try:
            return _exchange(connection, address, request, target)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ConnectionAbortedError):
            # The other side closed it in that moment: nothing was answered, a fresh one does it.
            if not request.repeatable:
                raise
    return _exchange(_connect(address, request.timeout), address, request, target)


def _connect(address: _Address, timeout: float) -> http.client.HTTPConnection:
    scheme, host, port = address
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout)


def _exchange(connection: http.client.HTTPConnection, address: _Address, request: Request, target: str) -> Response:
    kept = False
    handed = False
    try:
        connection.timeout = request.timeout
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        connection.request(request.method, target, body=request.body, headers=dict(request.headers))
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if request.streams and 200 <= answer.status < 300:
            handed = True
            return Response(answer.status, headers, b"", _rest(connection, address, answer, request.timeout))
        response = Response(answer.status, headers, answer.read())
        kept = not answer.will_close
        return response
    finally:
        if kept:
            _pool.give(address, connection)
        elif not handed:
            connection.close()


def _rest(connection: http.client.HTTPConnection, address: _Address, answer: http.client.HTTPResponse, timeout: float) -> Iterator[bytes]:
    """The body as it comes; a connection that is not read to its end is closed."""
    kept = False
    try:
        while True:
            try:
                part = answer.read1(_PART_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(error, timeout) from error
            if not part:
                break
            yield part
        kept = not answer.will_close
    finally:
        if kept:
            _pool.give(address, connection)
        else:
            connection.close()
