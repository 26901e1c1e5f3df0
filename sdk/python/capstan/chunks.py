"""Decodes the responses of another endpoint's routes: as a whole, or chunk by chunk as they arrive."""
from __future__ import annotations

import codecs
import json
from typing import Any, List, Mapping

from .errors import ConnectionFailed

#: Requests each chunk of the function as a separate JSON document, whatever the chunks are.
JSON_LINES = "application/x-ndjson"


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "application/json").split(";")[0].strip().lower()


def value_of(call: str, headers: Mapping[str, str], body: bytes) -> Any:
    """
    Returns JSON as its value, text as text, anything else as bytes; None for an empty response. Raises ConnectionFailed
    for invalid JSON.
    """
    kind = media_type(headers)
    if not body:
        return None
    if kind == JSON_LINES:
        chunks = ChunkReader(call, headers)
        return chunks.feed(body) + chunks.end()
    if kind.startswith("text/"):
        return body.decode("utf-8", "replace")
    return _json(call, body) if kind == "application/json" or kind.endswith("+json") else body


class ChunkReader:
    """
    Reads the chunks as the function yielded them if the response separates them (JSON lines); otherwise text or bytes
    as they arrive.
    """

    def __init__(self, call: str, headers: Mapping[str, str]) -> None:
        self._call = call
        self._kind = media_type(headers)
        self._rest = b""
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> List[Any]:
        if self._kind == JSON_LINES:
            *lines, self._rest = (self._rest + data).split(b"\n")
            return [_json(self._call, line) for line in lines if line]
        if self._kind.startswith("text/"):
            text = self._text.decode(data)
            return [text] if text else []
        return [data] if data else []

    def end(self) -> List[Any]:
        return [_json(self._call, self._rest)] if self._rest else []


def _json(call: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConnectionFailed(f"{call}: the response is not JSON") from error
