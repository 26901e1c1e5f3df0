"""Cancels abandoned work at another endpoint, as far as possible."""
from __future__ import annotations

import sys
import threading
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Type

from . import http_sync, jobs
from .errors import CapstanError
from .exchange import Connection, Flow
from .jobs import Snapshot, Submission
from .retry import RetryPolicy

#: Remaining time of a worker that was asked to stop, seconds: the host kills it one second later.
_TIMEOUT = 5.0


class cancelling:
    """
    ``with cancelling(cancel):`` runs the exchange that ``cancel`` returns, once and in a separate thread, when the job
    or request of the calling code is stopped, or when a BaseException other than an Exception leaves the block: a
    cancelled coroutine, a closed generator, an interrupt.
    """

    def __init__(self, cancel: Callable[[], Flow[Any]]) -> None:
        self._cancel = cancel
        self._lock = threading.Lock()
        self._begun = False
        self._forget: Callable[[], Any] = lambda: None

    def __enter__(self) -> None:
        # Loaded only by the worker's host, which knows when its work is stopped.
        host = sys.modules.get("capstan_bootstrap.stopping")
        if host is not None:
            self._forget = host.on_stop(self._run)

    def __exit__(self, kind: Optional[Type[BaseException]], _error: Optional[BaseException], _trace: Optional[TracebackType]) -> None:
        self._forget()
        if kind is None or issubclass(kind, Exception):
            return
        try:
            threading.Thread(target=self._run, name="capstan-cancel", daemon=True).start()
        except RuntimeError:
            # The interpreter is exiting.
            return

    def _run(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
        try:
            http_sync.run(self._cancel())
        except CapstanError:
            # The work has ended or is unreachable: its own time limits will end it.
            return


def cancel_job(connection: Connection, path: str, job_id: str) -> Flow[Snapshot]:
    return (yield from jobs.cancel(_hurried(connection), path, job_id))


def cancel_submitted(connection: Connection, path: str, value: Mapping[str, Any], submission: Submission) -> Flow[Snapshot]:
    """
    Cancels a job whose id is not known yet: sending the same submission again, with its idempotency key, returns the
    id.
    """
    hurried = _hurried(connection)
    found = yield from jobs.submit(hurried, path, value, submission)
    return found if found.done else (yield from jobs.cancel(hurried, path, found.id))


def _hurried(connection: Connection) -> Connection:
    return replace(connection, retry=RetryPolicy(retries=2), timeout=_TIMEOUT)
