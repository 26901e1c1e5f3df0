"""Runs exchanges over connections that are kept open, from any thread."""
from __future__ import annotations

import http.client
import os
import selectors
import ssl
import threading
import time
from typing import Dict, Iterator, List, Optional

from .exchange import Address, Flow, Pause, Request, Response, Unreachable, Value, no_answer_within

#: Idle connections kept per address.
_KEPT = 16
_PART_BYTES = 64 * 1024


class _Pool:
    """Idle connections by address. A forked child starts with none: the parent's connections are not its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: Dict[Address, List[http.client.HTTPConnection]] = {}
        self._owner = os.getpid()

    def take(self, address: Address) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            self._disown()
            kept = self._idle.get(address)
            while kept:
                connection = kept.pop()
                if not _is_closed(connection):
                    return connection
                connection.close()
            return None

    def give(self, address: Address, connection: http.client.HTTPConnection) -> None:
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
    """True if the peer has closed the idle connection: only then is there something to read."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


_pool = _Pool()


def run(flow: Flow[Value]) -> Value:
    """Runs a call and returns its value."""
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
    # Before Python 3.10, the socket's own class; only its text is reported.
    is_late = isinstance(error, TimeoutError) or "timed out" in str(error)
    return Unreachable(no_answer_within(timeout) if is_late else str(error) or type(error).__name__, error)


def _send(request: Request) -> Response:
    connection = _pool.take(request.address)
    if connection is not None:
        try:
            return _exchange(connection, request)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ConnectionAbortedError):
            # The peer closed it at the same moment: there was no response, so a new connection is used.
            if not request.repeatable:
                raise
    return _exchange(_connect(request.address, request.timeout), request)


def _connect(address: Address, timeout: float) -> http.client.HTTPConnection:
    if address.scheme == "https":
        return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout)


def _exchange(connection: http.client.HTTPConnection, request: Request) -> Response:
    kept = False
    handed = False
    try:
        connection.timeout = request.timeout
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        connection.request(request.method, request.target, body=request.body, headers=dict(request.headers))
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if request.streams and 200 <= answer.status < 300:
            handed = True
            return Response(answer.status, headers, b"", _rest(connection, request, answer))
        response = Response(answer.status, headers, answer.read())
        kept = not answer.will_close
        return response
    finally:
        if kept:
            _pool.give(request.address, connection)
        elif not handed:
            connection.close()


def _rest(connection: http.client.HTTPConnection, request: Request, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yields the body as it arrives; closes a connection that is not read to its end."""
    kept = False
    try:
        while True:
            try:
                part = answer.read1(_PART_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(error, request.timeout) from error
            if not part:
                break
            yield part
        kept = not answer.will_close
    finally:
        if kept:
            _pool.give(request.address, connection)
        else:
            connection.close()
