"""What callers are told about an address without a response, and about retries."""
from __future__ import annotations

import errno
import socket
import sys
import threading
import time
import unicodedata
from typing import Dict, Optional
from urllib.parse import urlsplit

from .errors import ConnectionFailed

#: System errors of a connection that was never established.
_NOT_CONNECTED = frozenset((errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ETIMEDOUT))
#: Interval between notices about one address, seconds.
_NOTICE_SECONDS = 60.0

_lock = threading.Lock()
#: Origin to the time of its last notice.
_noticed: Dict[str, float] = {}


def connection_failed(call: str, base_url: str, reason: str, cause: Optional[BaseException]) -> ConnectionFailed:
    """Returns the error of a call without a response: it names the address, and what to check."""
    origin = _origin(base_url)
    if _is_connection_failure(cause):
        text = f"cannot connect to {origin}: {reason}. Check CAPSTAN_URL (or capstan.base_url), or start the service there: capstan up"
    else:
        text = f"{reason} (from {origin})"
    failure = ConnectionFailed(f"{call}: {text}")
    failure.__cause__ = cause
    return failure


def note_retry(base_url: str, failure: Exception, retries: int) -> None:
    """Prints that a call is retried: on stderr, once a minute for each address, so that a long outage is not silent."""
    origin = _origin(base_url)
    now = time.monotonic()
    with _lock:
        last = _noticed.get(origin)
        if last is not None and now - last < _NOTICE_SECONDS:
            return
        _noticed[origin] = now
    # The message may hold what a server sent: nothing of it may act on a terminal.
    message = "".join(letter if unicodedata.category(letter) != "Cc" else " " for letter in str(failure))
    # None in a program without a console.
    if sys.stderr is not None:
        print(f"capstan: {message}; retrying up to {retries} {'time' if retries == 1 else 'times'}", file=sys.stderr, flush=True)


def _origin(base_url: str) -> str:
    """Without a user name and a password."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _is_connection_failure(cause: Optional[BaseException]) -> bool:
    if not isinstance(cause, OSError):
        return False
    # asyncio joins the errors of several addresses into one without a number.
    return isinstance(cause, socket.gaierror) or cause.errno in _NOT_CONNECTED or "Connect call failed" in str(cause)
