"""HTTP requests and responses of functions of a load-balanced endpoint."""
import collections
import json
import threading
from urllib.parse import parse_qs, urlsplit

# Credit is granted in steps of at least this size, bytes.
GRANT_BYTES = 64 * 1024


class CallerGone(Exception):
    """The caller disconnected, or the request timed out."""


class Response:
    """
    A response with its own status and headers. `body`: bytes, text, or an iterator of these; `headers`: by name, or
    pairs of name and value if a name occurs several times.
    """

    def __init__(self, body=b"", status=200, headers=None):
        self.body = body
        self.status = status
        self.headers = dict(headers or {}) if headers is None or hasattr(headers, "keys") else list(headers)


class Body:
    """An incoming request body. Reading grants the sender credit."""

    def __init__(self, first, ended, grant):
        self._parts = collections.deque([first] if first else [])
        self._ended = ended
        self._grant = grant
        self._gone = False
        self._owed = 0
        self._changed = threading.Condition()

    @property
    def is_empty(self):
        return self._ended and not self._parts

    def push(self, data, ended):
        with self._changed:
            if data:
                self._parts.append(data)
            self._ended = self._ended or ended
            self._changed.notify_all()

    def fail(self):
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def __iter__(self):
        while True:
            with self._changed:
                while not self._parts and not self._ended and not self._gone:
                    self._changed.wait()
                if self._gone:
                    raise CallerGone("the caller disconnected")
                if not self._parts:
                    return
                part = self._parts.popleft()
                self._owed += len(part)
                owed = self._owed if self._owed >= GRANT_BYTES and not self._ended else 0
                self._owed -= owed
            if owed:
                self._grant(owed)
            yield part

    def read(self):
        return b"".join(self)


class Request:
    """The value of a parameter called `request`."""

    Response = Response

    def __init__(self, header, body):
        self.method = header["method"]
        self.url = header["url"]
        # The path and the query as the caller sent them; `query_lists` has all values of a repeated name.
        parts = urlsplit(self.url)
        self.path = parts.path
        self.query_lists = parse_qs(parts.query, keep_blank_values=True)
        self.query = {name: values[-1] for name, values in self.query_lists.items()}
        # Names in lower case; the values of a repeated header are joined by commas.
        self.headers = {}
        for name, value in header["headers"]:
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self.path_values = header["pathValues"]
        # The caller's WebSocket, if it opens one.
        self.websocket = None
        self._body = body
        self._read = None

    def body(self):
        """Returns the whole body, bytes."""
        if self._read is None:
            self._read = self._body.read()
        return self._read

    def text(self):
        return self.body().decode()

    def json(self):
        return json.loads(self.body())

    def stream(self):
        """Returns the body part by part, as it arrives; can be read once."""
        return iter(self._body)
