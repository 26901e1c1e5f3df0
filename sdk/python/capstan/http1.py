"""The part of HTTP/1.1 (RFC 9112) that the service uses, as bytes, without the connection."""
from __future__ import annotations

from typing import Dict, NamedTuple, Optional
from urllib.parse import urlsplit

from .exchange import Request

#: Longest head of a response, bytes.
MAX_HEAD_BYTES = 64 * 1024
BROKEN_OFF = "the connection was closed before the response was complete"


class BrokenAnswer(Exception):
    """The data is not a valid HTTP response."""


class Head(NamedTuple):
    """A response without its body."""

    status: int
    #: Names in lower case.
    headers: Dict[str, str]
    #: The connection can be reused for another request afterwards.
    keeps: bool

    @property
    def is_interim(self) -> bool:
        """True if the final response is still to come."""
        return 100 <= self.status < 200


def request_bytes(request: Request) -> bytes:
    """Encodes a request head. Raises ValueError for a header that would inject another one."""
    head = f"{request.method} {request.target} HTTP/1.1\r\nhost: {urlsplit(request.url).netloc.rpartition('@')[2]}\r\n"
    for name, value in request.headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} must not contain a line break")
        head += f"{name}: {value}\r\n"
    body = request.body or b""
    if request.body is not None or request.method != "GET":
        head += f"content-length: {len(body)}\r\n"
    return (f"{head}\r\n").encode("latin-1") + body


def read_head(data: bytes) -> Head:
    """Parses everything up to the empty line. Raises BrokenAnswer."""
    first, *lines = data.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise BrokenAnswer("the response is not HTTP")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    return Head(int(words[1]), headers, "close" not in connection and (words[0] != "HTTP/1.0" or "keep-alive" in connection))


def is_chunked(request: Request, head: Head) -> bool:
    """True if each part of the body is preceded by its size."""
    return not _is_without_body(request, head) and "chunked" in head.headers.get("transfer-encoding", "").lower()


def body_bytes(request: Request, head: Head) -> Optional[int]:
    """
    Returns the size of a body that is not chunked; None when only the connection's end determines it. Raises
    BrokenAnswer.
    """
    if _is_without_body(request, head):
        return 0
    length = head.headers.get("content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise BrokenAnswer("the content-length of the response is not a number")
    return int(length)


def chunk_bytes(line: bytes) -> int:
    """Returns the size of the chunk that a line begins; 0 ends the body. Raises BrokenAnswer."""
    try:
        return int(line.split(b";")[0].strip(), 16)
    except ValueError:
        raise BrokenAnswer("the chunks of the response are invalid") from None


def _is_without_body(request: Request, head: Head) -> bool:
    return request.method == "HEAD" or head.status in (204, 304)
