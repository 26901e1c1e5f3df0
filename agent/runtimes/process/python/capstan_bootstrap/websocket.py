"""
The value of a parameter called `websocket`: the caller's WebSocket, at the function's side.

The first use opens it, or accept(); it is closed by close(), by the caller, or by the end of the function. A function
that never uses it has its return value sent as an ordinary response, for example a 403. Asynchronous functions get an
AsyncWebSocket, whose methods are the same and are awaited.
"""
import asyncio
import base64
import collections
import hashlib
import threading

from .http_request import CallerGone
from .output import to_json
from .websocket_frames import BINARY, CLOSE, PING, PONG, TEXT, FrameError, FrameReader, close_frame, frame_of, is_close_code

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# Unread messages, bytes, beyond which the caller must wait.
UNREAD_BYTES = 1024 * 1024
PART_BYTES = 64 * 1024


class SocketClosed(Exception):
    """The WebSocket is closed."""


class Connection:
    """What both kinds share. `call.changed` guards it; `wait` functions are called with it held and say whether to go on."""

    def __init__(self, call, request, channel, first):
        self.request = request
        self.is_accepted = False
        self.is_closed = False
        # The caller sends nothing more.
        self.is_ended = False
        self.close_code = None
        self.close_reason = ""
        self._call = call
        self._channel = channel
        self._reader = FrameReader()
        self._unread = collections.deque()
        self._unread_bytes = 0
        self._owed = 0
        self._is_half_closed = False
        self._violation = None
        self._is_sending = False
        self._pong = None
        self._waiters = []
        self._first = first

    @property
    def protocols(self):
        offered = self.request.headers.get("sec-websocket-protocol", "")
        return [each.strip() for each in offered.split(",") if each.strip()]

    def accept(self, protocol):
        with self._call.changed:
            if self.is_accepted:
                raise RuntimeError("the WebSocket is already open")
            if protocol is not None and protocol not in self.protocols:
                raise ValueError(f"protocol: {protocol!r} is not among the protocols that the caller offers")
            key = self.request.headers.get("sec-websocket-key", "")
            accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
            headers = [("sec-websocket-accept", accept), *([] if protocol is None else [("sec-websocket-protocol", protocol)])]
            self._channel.send({"t": "http-head", "key": self._call.key, "status": 101, "headers": headers, "ended": False})
            self.is_accepted = True
            self._read(self._first)
        self._grant()
        self._answer_ping()

    def feed(self, data, ended):
        """Takes bytes of the caller, on the thread that reads them for all requests: it never waits."""
        with self._call.changed:
            self._is_half_closed = self._is_half_closed or ended
            if not self.is_accepted:
                self._first += data
                return
            self._read(data)
        self._grant()
        self._answer_ping()

    def _read(self, data):
        """Called with the lock held."""
        if not self.is_ended:
            try:
                for opcode, value in self._reader.push(data):
                    self._take(opcode, value)
            except FrameError as error:
                self._violation = error
                self.is_ended = True
        self.is_ended = self.is_ended or self._is_half_closed
        self._owed += len(data)
        self.wake()

    def wake(self):
        """Something has changed. Called with the lock held."""
        self._call.changed.notify_all()
        waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            loop.call_soon_threadsafe(_resolve, future)

    def waiter(self):
        """Returns a future that the next change resolves. Called with the lock held."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiters.append((loop, future))
        return future

    def received(self):
        """Returns (the next message or None, whether to wait for one). Called with the lock held."""
        if self._unread:
            message = self._unread.popleft()
            self._unread_bytes -= len(message)
            return message, False
        return None, not (self.is_ended or self.is_closed or self._call.gone)

    def after_receive(self, message):
        """Returns the Close frame that is due."""
        self._grant()
        if message is not None:
            return None
        with self._call.changed:
            self.close_code = 1006 if self.close_code is None else self.close_code
            if self.is_closed or self._call.gone:
                return None
            self.is_closed = True
            return close_frame(*self.end_of())

    def end_of(self):
        """Returns (code, reason) of the Close frame that answers what the caller did."""
        if self._violation is not None:
            return self._violation.code, str(self._violation)
        return 1000 if self.close_code in (None, 1005, 1006) else self.close_code, ""

    def may_send(self):
        """Begins a frame if no other is being sent. Called with the lock held."""
        if self._is_sending:
            return False
        self._is_sending = True
        return True

    def part_may_go(self, count):
        """Called with the lock held."""
        if self._call.gone:
            raise CallerGone("the caller disconnected")
        if self._call.window <= 0:
            return False
        self._call.window -= count
        return True

    def write(self, part):
        self._channel.send({"t": "http-body", "key": self._call.key, "ended": False}, part)

    def sent(self):
        """The frame is complete."""
        with self._call.changed:
            self._is_sending = False
            self.wake()
        self._answer_ping()

    def closing(self):
        """Returns False when it is closed already."""
        with self._call.changed:
            was, self.is_closed = self.is_closed, True
            self.wake()
            return not was

    def check_open(self):
        with self._call.changed:
            if self.is_closed or self._call.gone or (self.is_ended and not self._unread):
                raise SocketClosed("the WebSocket is closed")

    def _take(self, opcode, value):
        if opcode in (TEXT, BINARY):
            self._unread.append(value)
            self._unread_bytes += len(value)
        elif opcode == PING:
            # The last one is enough.
            self._pong = value
        elif opcode == CLOSE:
            self.close_code, self.close_reason = value
            self.is_ended = True

    def _grant(self):
        with self._call.changed:
            owed = self._owed if self._unread_bytes <= UNREAD_BYTES else 0
            self._owed -= owed
        if owed:
            self._channel.send({"t": "http-credit", "key": self._call.key, "count": owed})

    def _answer_ping(self):
        with self._call.changed:
            if self._pong is None or self._is_sending or self.is_closed or self._call.window <= 0:
                return
            frame, self._pong = frame_of(PONG, self._pong), None
            self._call.window -= len(frame)
            # Within the lock: no other frame may begin.
            self.write(frame)


class WebSocket:
    """For functions that are not asynchronous."""

    def __init__(self, connection):
        self._connection = connection
        self.request = connection.request

    @property
    def protocols(self):
        """Subprotocols that the caller offers."""
        return self._connection.protocols

    @property
    def close_code(self):
        """The code of the caller's Close frame; 1006 when it disconnected without one."""
        return self._connection.close_code

    @property
    def close_reason(self):
        return self._connection.close_reason

    def accept(self, protocol=None):
        """Opens it, with one of the offered subprotocols."""
        self._connection.accept(protocol)

    def send(self, data):
        """Sends text, bytes, or any other value as JSON. Waits while the caller is slow."""
        self._open()
        self._connection.check_open()
        self._frame(_frame_for(data))

    def receive(self):
        """Returns the next message; None when the WebSocket is closed."""
        self._open()
        connection = self._connection
        message = self._wait(connection.received)
        due = connection.after_receive(message)
        if due is not None:
            self._frame(due)
        return message

    def __iter__(self):
        while (message := self.receive()) is not None:
            yield message

    def close(self, code=1000, reason=""):
        """
        Closes it. `code`: 1000, or 3000 to 4999 for the application's own; ValueError for one that may not be sent. Of
        `reason` at most 123 bytes are sent.
        """
        _check_close(code, reason)
        self._open()
        if self._connection.closing():
            try:
                self._frame(close_frame(code, reason))
            except CallerGone:
                pass

    def _open(self):
        if not self._connection.is_accepted:
            self._connection.accept(None)

    def _frame(self, frame):
        connection = self._connection
        self._until(connection.may_send)
        try:
            for at in range(0, len(frame), PART_BYTES):
                part = frame[at : at + PART_BYTES]
                self._until(lambda count=len(part): connection.part_may_go(count))
                connection.write(part)
        finally:
            connection.sent()

    def _until(self, ready):
        changed = self._connection._call.changed
        with changed:
            while not ready():
                changed.wait()

    def _wait(self, attempt):
        changed = self._connection._call.changed
        with changed:
            while True:
                value, is_pending = attempt()
                if not is_pending:
                    return value
                changed.wait()


class AsyncWebSocket(WebSocket):
    """For asynchronous functions."""

    async def accept(self, protocol=None):
        self._connection.accept(protocol)

    async def send(self, data):
        self._open()
        self._connection.check_open()
        await self._frame(_frame_for(data))

    async def receive(self):
        self._open()
        connection = self._connection
        while True:
            with connection._call.changed:
                message, is_pending = connection.received()
                change = connection.waiter() if is_pending else None
            if change is None:
                break
            await change
        due = connection.after_receive(message)
        if due is not None:
            await self._frame(due)
        return message

    def __iter__(self):
        raise TypeError("an asynchronous function reads its WebSocket with `async for`")

    async def __aiter__(self):
        while (message := await self.receive()) is not None:
            yield message

    async def close(self, code=1000, reason=""):
        _check_close(code, reason)
        self._open()
        if self._connection.closing():
            try:
                await self._frame(close_frame(code, reason))
            except CallerGone:
                pass

    async def _frame(self, frame):
        connection = self._connection
        await self._until(connection.may_send)
        try:
            for at in range(0, len(frame), PART_BYTES):
                part = frame[at : at + PART_BYTES]
                await self._until(lambda count=len(part): connection.part_may_go(count))
                connection.write(part)
        finally:
            connection.sent()

    async def _until(self, ready):
        while True:
            with self._connection._call.changed:
                if ready():
                    return
                change = self._connection.waiter()
            await change


def _check_close(code, reason):
    if not is_close_code(code):
        raise ValueError(f"code: {code!r} may not be sent; use 1000, or 3000 to 4999 for the application's own")
    if not isinstance(reason, str):
        raise TypeError(f"reason: must be a str, not {type(reason).__name__}")


def _frame_for(data):
    if isinstance(data, (bytes, bytearray, memoryview)):
        return frame_of(BINARY, bytes(data))
    return frame_of(TEXT, data.encode() if isinstance(data, str) else to_json(data, "message"))


def _resolve(future):
    if not future.done():
        future.set_result(None)
