"""
The handle of :mod:`capstan.client` for asyncio, with the same names::

    async with asyncio.timeout(60):
        print(await capstan.aio.Endpoint("<endpoint_id>").run_sync({"text": "hello"}))

Cancelling a call ends it at once; a job that was submitted runs on.
"""
from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Mapping, Optional

from . import http_async, jobs
from .account import connection_of
from .client import jobs_left
from .errors import ConnectionFailed, DeclarationError, JobError, job_error
from .exchange import Connection
from .http_async import close as close
from .jobs import Snapshot, Submission
from .retry import RetryPolicy


class Endpoint:
    """A handle of an endpoint that runs. Its connections belong to the event loop that uses it."""

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
        """As :class:`capstan.client.EndpointClient`."""
        given = endpoint_id if endpoint_id is not None else id
        if not isinstance(given, str) or not given:
            raise DeclarationError("Endpoint: id must be a string that is not empty, not %r" % (given,))
        self.id: str = given
        self._api_key = api_key
        self._base_url = base_url
        self._retry = retry
        self._timeout = timeout
        self._path = jobs.endpoint_path(given)

    async def run(
        self,
        input: Mapping[str, Any],
        *,
        webhook: Optional[str] = None,
        policy: Optional[Mapping[str, Any]] = None,
        s3_config: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
    ) -> "Job":
        """Submits a job and gives its handle as soon as the service holds it."""
        submission = Submission(webhook, policy, s3_config, idempotency_key)
        return Job(self, await http_async.run(jobs.submit(self._connection(), self._path, input, submission)))

    async def run_sync(
        self,
        input: Mapping[str, Any],
        timeout: Optional[float] = None,
        *,
        webhook: Optional[str] = None,
        policy: Optional[Mapping[str, Any]] = None,
        s3_config: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Any:
        """
        Submits a job, waits for its end and gives the result. ``timeout``: seconds; None waits as long as it
        takes. Raises JobFailed, JobCancelled, JobTimedOut, Timeout.
        """
        submission = Submission(webhook, policy, s3_config, idempotency_key)
        flow = jobs.submit_and_wait(self._connection(), self._path, input, submission, timeout)
        return await Job(self, await http_async.run(flow)).output()

    runsync = run_sync

    def job(self, job_id: str) -> "Job":
        """The handle of a job that was submitted before."""
        return Job(self, Snapshot(id=job_id, status="IN_QUEUE"))

    async def health(self) -> Dict[str, Dict[str, int]]:
        """Counts of jobs and workers."""
        return await http_async.run(jobs.health(self._connection(), self._path))

    async def purge_queue(self) -> int:
        """Ends every job that waits in the queue; how many there were."""
        return await http_async.run(jobs.purge(self._connection(), self._path))

    def _connection(self) -> Connection:
        return connection_of(self._api_key, self._base_url, self._retry, self._timeout)

    def __repr__(self) -> str:
        return "aio.Endpoint(%r)" % self.id


class Job:
    """A job that was submitted."""

    def __init__(self, endpoint: Endpoint, snapshot: Snapshot) -> None:
        self._endpoint = endpoint
        self._last = snapshot

    @property
    def id(self) -> str:
        return self._last.id

    @property
    def done(self) -> bool:
        """The last known state is an end."""
        return self._last.done

    @property
    def error(self) -> Optional[str]:
        """The job's error, when the last known state has one."""
        return self._last.error

    async def status(self) -> str:
        """The present status. Raises NotFound for a job the service has forgotten."""
        return (await self.snapshot()).status

    async def snapshot(self) -> Snapshot:
        """Everything the service says about the job now."""
        self._last = await http_async.run(jobs.look(self._endpoint._connection(), self._endpoint._path, self.id))
        return self._last

    async def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end, however it ends. ``timeout``: seconds. Raises Timeout."""
        if not self.done:
            flow = jobs.wait_for_end(self._endpoint._connection(), self._endpoint._path, self._last, timeout)
            self._last = await http_async.run(flow)
        return self

    async def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and gives the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        last = (await self.wait(timeout))._last
        if last.status != "COMPLETED":
            raise self._ended()
        return last.output

    async def stream(self) -> AsyncIterator[Any]:
        """As :meth:`capstan.client.Job.stream`."""
        count = 0
        cursor: Optional[str] = jobs.STREAM_START
        while True:
            try:
                page = await http_async.run(jobs.read_chunks(self._endpoint._connection(), self._endpoint._path, self.id, cursor))
            except ConnectionFailed as lost:
                for chunk in jobs_left(await self.output(), count, lost):
                    yield chunk
                return
            for chunk in page.chunks:
                yield chunk
            count += len(page.chunks)
            cursor = page.cursor
            # An answer that ends the job carries all the rest.
            if page.snapshot.done:
                if page.snapshot.status != "COMPLETED":
                    self._last = page.snapshot
                    raise self._ended()
                return

    async def cancel(self) -> None:
        """Stops the job, queued or running. Raises Conflict when it had ended."""
        self._last = await http_async.run(jobs.cancel(self._endpoint._connection(), self._endpoint._path, self.id))

    async def retry(self) -> None:
        """Queues a job that failed or timed out again, with the same id and input. Raises Conflict in any other state."""
        self._last = await http_async.run(jobs.retry(self._endpoint._connection(), self._endpoint._path, self.id))

    def _ended(self) -> JobError:
        return job_error(self._last.id, self._last.status, self._last.error, self)

    def __repr__(self) -> str:
        return "<aio.Job %s %s>" % (self._last.id, self._last.status)
