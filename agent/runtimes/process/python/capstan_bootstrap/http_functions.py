"""The functions of a load-balanced endpoint in their worker: each request calls the function of its route."""
import asyncio
import concurrent.futures
import contextvars
import inspect
import json
import re
import sys
import threading

from . import stopping
from .async_steps import AsyncSteps
from .attempt_processes import processes_of
from .channel import utf8
from .culprit import current_key, end_process, run_loop
from .http_arguments import BadRequest, HttpSignature
from .http_request import Body, CallerGone, Request, Response
from .loading import load_function
from .output import error_message, error_stack, to_json
from .tracing import trace_of, traced
from .typed_values import Unfit
from .websocket import AsyncWebSocket, Connection, SocketClosed, WebSocket

# Most unread response bytes in transit (agent/runtimes/runtime.ts), and the largest part of a response.
WINDOW_BYTES = 256 * 1024
PART_BYTES = 64 * 1024
# More than callers may receive.
MAX_HEAD_BYTES = 65 * 1024
JSON_TYPE = "application/json; charset=utf-8"
LINE_END = re.compile("\r\n|\r|\n")
# The first chunk of a generator that yields nothing.
NO_CHUNK = object()
# A function that goes on this long after its request was stopped loses what it started, s.
GRACE_S = 1
EVENT_LINE = re.compile("(?:data|event|id|retry)(?::|$)|:|$")


class RequestContext:
    """The argument for a parameter `ctx`, or a last one `context`."""

    def __init__(self, endpoint_id, call):
        self.endpoint_id = endpoint_id
        self._call = call

    @property
    def stopped(self):
        """True once the caller disconnected or the request timed out."""
        return self._call.gone


class Call:
    """One request. `changed` guards the state that the reader thread changes while the function runs."""

    def __init__(self, header, body, channel):
        self.header = header
        self.key = header["key"]
        self.body = Body(body, header["ended"], lambda count: channel.send({"t": "http-credit", "key": self.key, "count": count}))
        self.gone = False
        # Its function runs: until its last frame is about to leave, the processes that are ended are its own.
        self.running = False
        self.stopping = stopping.Stopping()
        self.window = WINDOW_BYTES
        self.changed = threading.Condition()
        # Its AsyncSteps, while the function is asynchronous.
        self.task = None
        # The caller opens a WebSocket: what it sends goes there.
        self.socket = Connection(self, Request(header, self.body), channel, body) if header.get("upgrade") else None

    def grant(self, count):
        with self.changed:
            self.window += count
            self.tell()

    def abort(self):
        with self.changed:
            self.gone = True
            self.tell()
        self.body.fail()
        self.stopping.stop()
        task = self.task
        if task is not None:
            task.cancel()

    def tell(self):
        """Something has changed. Called with the lock held."""
        if self.socket is not None:
            self.socket.wake()
        self.changed.notify_all()

    def take(self, count):
        """Waits for credit."""
        with self.changed:
            while self.window <= 0 and not self.gone:
                self.changed.wait()
            if self.gone:
                raise CallerGone("the caller disconnected")
            self.window -= count


class HttpFunctions:
    def __init__(self, order, channel):
        self._channel = channel
        self._endpoint_id = order["endpointId"]
        self._functions = {}
        for spec in order["httpFunctions"]:
            fn = load_function(order["folder"], spec["module"], spec["name"])
            self._functions[spec["name"]] = (fn, HttpSignature(fn))
        self._pool = concurrent.futures.ThreadPoolExecutor(max(1, order["maxConcurrency"]), "handler")
        self._calls = {}
        # Ends those of stopped requests; None where several requests run at a time.
        self._processes = processes_of(order)
        self._ending = threading.Lock()
        self._loop = asyncio.get_event_loop()
        # What the modules set while they were loaded; each request gets a copy, so that none sees what another one set.
        self._base = contextvars.copy_context()

    def serve(self):
        try:
            run_loop(self._loop, self._channel)
        except SystemExit as error:
            end_process(error.code)

    def hear(self, header, body):
        key = header["key"]
        if header["t"] == "http":
            call = Call(header, body, self._channel)
            self._calls[key] = call
            self._pool.submit(self._base.copy().run, self._run, call)
            return
        call = self._calls.get(key)
        if call is None:
            return
        if header["t"] == "http-body" and call.socket is not None:
            call.socket.feed(body, header["ended"])
        elif header["t"] == "http-body":
            call.body.push(body, header["ended"])
        elif header["t"] == "http-credit":
            call.grant(header["count"])
        elif header["t"] == "http-abort":
            call.abort()
            with self._ending:
                if call.running:
                    self._end_processes_later(call)

    def _run(self, call):
        """Serves one request to its end, including failures; never raises."""
        answer = Answer(call, self._channel, lambda: self._end_processes(call))
        failure = None
        self._begin_processes(call)
        stopping.current.set(call.stopping)
        current_key.set(call.key)
        try:
            with traced(trace_of(call.header)):
                self._answer(call, answer)
        except BadRequest as error:
            answer.error(400, "Bad Request", str(error))
        except BaseException as error:
            if not call.gone and not isinstance(error, SocketClosed):
                sys.stderr.write(error_stack(error))
            if call.socket is not None and call.socket.is_accepted:
                failure = error
            else:
                answer.fail(error)
        finally:
            if call.socket is not None and call.socket.is_accepted:
                self._end_socket(call, failure)
            self._end_processes(call)
            self._calls.pop(call.key, None)

    def _begin_processes(self, call):
        """What is started from now on is the request's: what an earlier one left behind stays. It may be stopped already."""
        if self._processes is None:
            return
        with self._ending:
            self._processes.begin()
            call.running = True
            if call.gone:
                self._end_processes_later(call)

    def _end_socket(self, call, failure):
        """The function has ended: so does its WebSocket."""
        is_failure = failure is not None and not isinstance(failure, SocketClosed)
        code, reason = (1011, error_message(failure)) if is_failure else call.socket.end_of()
        WebSocket(call.socket).close(code, reason)
        self._end_processes(call)
        self._channel.send({"t": "http-body", "key": call.key, "ended": True})

    def _end_processes(self, call):
        """The request is about to end: if it was stopped, so does what its function left behind, before the next one begins."""
        with self._ending:
            if call.gone and call.running:
                self._processes.end()
            call.running = False

    def _end_processes_later(self, call):
        """A function may wait for what it started, which nothing interrupts."""

        def end():
            with self._ending:
                if call.running:
                    self._processes.end()

        timer = threading.Timer(GRACE_S, end)
        timer.daemon = True
        timer.start()

    def _answer(self, call, answer):
        name = call.header["function"]
        if name not in self._functions:
            answer.error(404, "Not Found", "the worker has no function " + name)
            return
        fn, signature = self._functions[name]
        request = Request(call.header, call.body)
        if call.socket is not None:
            if request.headers.get("sec-websocket-version") != "13":
                answer.error(426, "Upgrade Required", "Sec-WebSocket-Version: must be 13", [("sec-websocket-version", "13")])
                return
            request.websocket = (AsyncWebSocket if inspect.iscoroutinefunction(fn) else WebSocket)(call.socket)
        try:
            positional, by_name = signature.bind(request, RequestContext(self._endpoint_id, call))
        except Unfit as unfit:
            answer.unfit(unfit)
            return
        value = fn(*positional, **by_name)
        if not inspect.isawaitable(value) and not hasattr(value, "__aiter__"):
            self._reply(call, answer, request, value)
            return
        steps = AsyncSteps(self._loop, call)
        try:
            self._reply(call, answer, request, steps.run(value))
        finally:
            steps.close()

    def _reply(self, call, answer, request, value):
        if call.socket is None or not call.socket.is_accepted:
            answer.send(value, request.headers.get("accept", ""))


class Answer:
    """Converts a function's return value to an HTTP response. `before_end` runs before its last frame."""

    def __init__(self, call, channel, before_end):
        self._call = call
        self._channel = channel
        self._before_end = before_end
        self._begun = False

    def error(self, status, title, detail, headers=(), **more):
        """Sends an error response: `{error, detail}` with an HTTP status."""
        body = {"error": title, "detail": detail, **more}
        self._whole(status, [("content-type", JSON_TYPE), *headers], json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))

    def unfit(self, error):
        """Sends the response for values that do not fit their declared types, with each place."""
        errors = [{"path": place, "message": rule} for place, rule in error.problems]
        self.error(422, "Unprocessable Content", str(error), errors=errors)

    def fail(self, error):
        if not self._begun:
            try:
                self.error(500, "Internal Server Error", error_message(error))
                return
            except CallerGone:
                pass  # a long message beyond the caller's credit
        self._before_end()
        self._channel.send({"t": "http-failed", "key": self._call.key}, utf8(error_message(error)))

    def send(self, value, accept):
        if isinstance(value, (bytes, bytearray)):
            self._whole(200, [("content-type", "application/octet-stream")], bytes(value))
        elif _is_response(value):
            self._response(value)
        elif hasattr(value, "__next__"):
            self._stream(value, accept)
        else:
            self._whole(200, [("content-type", JSON_TYPE)], to_json(value, "result"))

    def _response(self, value):
        status = getattr(value, "status", None) or getattr(value, "status_code", 200)
        pairs = value.headers.items() if hasattr(value.headers, "items") else value.headers
        headers = [(str(name).lower(), str(each)) for name, each in pairs]
        body = value.body if hasattr(value, "body") else value.content
        if isinstance(body, str):
            headers = _with_type(headers, "text/plain; charset=utf-8")
            body = body.encode()
        if body is None or isinstance(body, (bytes, bytearray)):
            self._whole(int(status), headers, bytes(body or b""))
            return
        if not hasattr(body, "__next__"):
            self._whole(int(status), _with_type(headers, JSON_TYPE), to_json(body, "body"))
            return
        self._head(int(status), headers)
        self._rest(body, lambda part: part.encode() if isinstance(part, str) else bytes(part))

    def _stream(self, chunks, accept):
        """
        Sends events or newline-delimited JSON if the caller requests them; otherwise the first chunk selects the kind
        of stream: text, bytes, or JSON documents.
        """
        first = next(chunks, NO_CHUNK)
        events = "text/event-stream" in accept
        is_bytes = isinstance(first, (bytes, bytearray))
        if events:
            kind = "text/event-stream; charset=utf-8"
        elif is_bytes:
            kind = "application/octet-stream"
        elif "application/x-ndjson" not in accept and (first is NO_CHUNK or isinstance(first, str)):
            kind = "text/plain; charset=utf-8"
        else:
            kind = "application/x-ndjson; charset=utf-8"

        def write(chunk):
            if events:
                return _event(chunk).encode()
            if isinstance(chunk, (bytes, bytearray)):
                return bytes(chunk)
            if isinstance(chunk, str) and "ndjson" not in kind:
                return chunk.encode()
            return to_json(chunk, "chunk") + b"\n"

        def whole():
            if first is not NO_CHUNK:
                yield first
            yield from chunks

        self._head(200, [("content-type", kind), *([("cache-control", "no-cache")] if events else [])])
        try:
            self._rest(whole(), write)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def _rest(self, parts, write):
        for part in parts:
            self._body(write(part))
        self._end()

    def _whole(self, status, headers, body):
        if status not in (204, 304) and not any(name == "content-length" for name, _ in headers):
            headers = [("content-length", str(len(body))), *headers]
        if len(body) <= PART_BYTES:
            self._begun = True
            self._before_end()
            self._channel.send(self._head_frame(status, headers, True), body)
            return
        self._head(status, headers)
        self._body(body)
        self._end()

    def _end(self):
        self._before_end()
        self._channel.send({"t": "http-body", "key": self._call.key, "ended": True})

    def _head(self, status, headers):
        self._begun = True
        self._channel.send(self._head_frame(status, headers, False))

    def _head_frame(self, status, headers, ended):
        return {"t": "http-head", "key": self._call.key, "status": status, "headers": _bounded(headers), "ended": ended}

    def _body(self, data):
        """Sends parts within the caller's credit."""
        for at in range(0, len(data), PART_BYTES):
            part = data[at : at + PART_BYTES]
            self._call.take(len(part))
            self._channel.send({"t": "http-body", "key": self._call.key, "ended": False}, part)


def _bounded(headers):
    """Cuts headers off behind MAX_HEAD_BYTES, so that they fit in a frame; the agent refuses so many, with the reason."""
    left = MAX_HEAD_BYTES
    kept = []
    for name, value in headers:
        if left <= 0:
            break
        kept.append((name[:left], value[:left]))
        left -= len(name) + len(value) + 4
    return kept


def _event(chunk):
    """
    Encodes a chunk as a server-sent event: text as its lines, anything else as JSON. Text that already consists of
    events is unchanged.
    """
    if isinstance(chunk, (bytes, bytearray)):
        chunk = bytes(chunk).decode("utf-8", "replace")
    text = chunk if isinstance(chunk, str) else to_json(chunk, "chunk").decode()
    lines = LINE_END.split(text)
    # Whole events: each line is a field, a comment or empty, and the last event ends with an empty line.
    if len(lines) > 2 and lines[0] and not lines[-1] and not lines[-2] and all(EVENT_LINE.match(line) for line in lines):
        return text
    return "".join(f"data: {line}\n" for line in lines) + "\n"


def _with_type(headers, kind):
    return headers if any(name == "content-type" for name, _ in headers) else [*headers, ("content-type", kind)]


def _is_response(value):
    """True for our Response and those of frameworks: status, headers and body are attributes, not keys of a dict."""
    if isinstance(value, Response):
        return True
    has_status = hasattr(value, "status") or hasattr(value, "status_code")
    return not isinstance(value, dict) and has_status and hasattr(value, "headers") and (hasattr(value, "body") or hasattr(value, "content"))
