"""Encodes values as JSON bytes within the limits, with readable error messages."""
import traceback

from .json_values import NotJson, to_bytes

MEBIBYTE = 1024 * 1024
# As in agent/runtimes/runtime.ts.
MAX_RESULT_BYTES = 20 * MEBIBYTE
MAX_CHUNK_BYTES = MEBIBYTE
MAX_PROGRESS_BYTES = 64 * 1024
# A caller needs a line or two of an error, not a document.
MAX_ERROR_CHARACTERS = 16384


class OutputError(Exception):
    """The handler's value is not a valid result; the message is the job's error."""


def to_json(value, what):
    """Returns the JSON of a value by the table of docs/values.md, UTF-8."""
    try:
        return to_bytes(value, what)
    except NotJson as error:
        raise OutputError(f"the {what} is not JSON: {error}") from None


def result_bytes(value):
    data = to_json(value, "result")
    if len(data) > MAX_RESULT_BYTES:
        raise OutputError(f"the result has {len(data)} bytes; at most 20 MiB are allowed")
    return data


def chunk_bytes(value):
    data = to_json(value, "chunk")
    if len(data) > MAX_CHUNK_BYTES:
        raise OutputError(f"a chunk has {len(data)} bytes; at most 1 MiB is allowed")
    return data


def progress_bytes(value):
    data = to_json(value, "progress")
    if len(data) > MAX_PROGRESS_BYTES:
        raise OutputError(f"a progress update has {len(data)} bytes; at most 64 KiB are allowed")
    return data


class Aggregate:
    """The output of a generator's job: the array of its chunks, whose total size is limited like any result."""

    def __init__(self):
        self._chunks = []
        # The brackets.
        self._bytes = 2

    def add(self, chunk):
        self._bytes += len(chunk) + 1
        if self._bytes > MAX_RESULT_BYTES:
            raise OutputError("the chunks together have more than 20 MiB, the limit of a result")
        self._chunks.append(chunk)

    def to_bytes(self):
        return b"[" + b",".join(self._chunks) + b"]"


def error_message(error):
    """
    Returns an exception's text, or the name of its class if the text is empty. The text of a KeyError is only the key,
    so the class name is added.
    """
    try:
        text = str(error)
    except Exception:
        # An exception that cannot be formatted still has a class.
        text = ""
    name = type(error).__name__
    if type(error).__str__ is KeyError.__str__ and text:
        text = name + ": " + text
    text = text or name
    return text if len(text) <= MAX_ERROR_CHARACTERS else text[:MAX_ERROR_CHARACTERS] + "…"


def error_stack(error):
    """Returns the text for the worker's log: the traceback from the user's first line on."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))
    except Exception:
        # The exception's own __str__ may raise.
        return "".join(traceback.format_tb(frames)) + type(error).__name__ + "\n"


def _is_ours(frame):
    """True for this package's own code, and for its import of the user's module."""
    return frame.f_globals.get("__package__") == __package__ or "importlib" in frame.f_code.co_filename
