"""
State and operations of endpoint and job handles, without waiting: calls are exchanges (:mod:`capstan.exchange`), which
:mod:`capstan.client` runs with blocking threads and :mod:`capstan.aio` with asyncio.
"""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

from . import jobs
from .account import connection_of
from .errors import ConnectionFailed, DeclarationError, JobError, job_error
from .exchange import Connection, Flow
from .jobs import Snapshot
from .retry import RetryPolicy


class EndpointHandle:
    """A deployed endpoint."""

    def __init__(
        self,
        endpoint_id: Optional[str] = None,
        *,
        id: Optional[str] = None,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        retry: Optional[RetryPolicy] = None,
        timeout: float = 30.0,
    ) -> None:
        """
        ``api_key`` and ``base_url`` default to those of the module, read at each call. ``timeout``: seconds of one
        attempt of a call, in addition to the wait that it requests.
        """
        given = endpoint_id if endpoint_id is not None else id
        if not isinstance(given, str) or not given:
            raise DeclarationError(f"Endpoint: id must be a non-empty string, not {given!r}")
        self.id: str = given
        self._api_key = api_key
        self._base_url = base_url
        self._retry = retry
        self._timeout = timeout
        self._path = jobs.endpoint_path(given)

    def _connection(self) -> Connection:
        return connection_of(self._api_key, self._base_url, self._retry, self._timeout)


class JobHandle:
    """A job that was submitted."""

    def __init__(self, endpoint: EndpointHandle, snapshot: Snapshot) -> None:
        self._endpoint = endpoint
        self._last = snapshot

    @property
    def id(self) -> str:
        return self._last.id

    @property
    def done(self) -> bool:
        """True when the last known state is final."""
        return self._last.done

    @property
    def error(self) -> Optional[str]:
        """The job's error, if the last known state has one."""
        return self._last.error

    def _look(self) -> Flow[Snapshot]:
        return (yield from self._learn(jobs.look(*self._place(), self.id)))

    def _wait(self, timeout: Optional[float]) -> Flow[None]:
        if not self.done:
            yield from self._learn(jobs.wait_for_end(*self._place(), self._last, timeout))

    def _cancel(self) -> Flow[None]:
        yield from self._learn(jobs.cancel(*self._place(), self.id))

    def _queue_again(self) -> Flow[None]:
        yield from self._learn(jobs.retry(*self._place(), self.id))

    def _result(self) -> Any:
        """Returns the value of a job that has ended. Raises JobFailed, JobCancelled, JobTimedOut."""
        if self._last.status != "COMPLETED":
            raise self._ended()
        return self._last.output

    def _ended(self) -> JobError:
        return job_error(self._last.id, self._last.status, self._last.error, self)

    def _learn(self, flow: Flow[Snapshot]) -> Flow[Snapshot]:
        self._last = yield from flow
        return self._last

    def _place(self) -> Tuple[Connection, str]:
        return self._endpoint._connection(), self._endpoint._path


class ChunkReading:
    """Reads a generator's chunks from the first kept one to the last: call :meth:`more` until :attr:`over`."""

    def __init__(self, job: JobHandle) -> None:
        self._job = job
        self._cursor: Optional[str] = jobs.STREAM_START
        self._count = 0
        #: The end of a job that did not complete: raised after the chunks of the same response.
        self._failure: Optional[Snapshot] = None
        self.over = False

    def more(self) -> Flow[List[Any]]:
        """Returns the next chunks, possibly none. Raises the job's error after the last of them."""
        job = self._job
        if self._failure is not None:
            job._last = self._failure
            raise job._ended()
        try:
            page = yield from jobs.read_chunks(*job._place(), job.id, self._cursor)
        except ConnectionFailed as lost:
            yield from job._wait(None)
            self.over = True
            return self._left_of(job._result(), lost)
        self._count += len(page.chunks)
        self._cursor = page.cursor
        # A response with the job's end has all remaining chunks.
        if page.snapshot.status == "COMPLETED":
            self.over = True
        elif page.snapshot.done:
            self._failure = page.snapshot
        return page.chunks

    def _left_of(self, output: Any, lost: ConnectionFailed) -> List[Any]:
        """Returns the part of a generator's whole output that was not streamed."""
        if not isinstance(output, list) or len(output) < self._count:
            raise lost
        return output[self._count :]
