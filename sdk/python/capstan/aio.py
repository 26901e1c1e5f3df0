"""
The handle of :mod:`capstan.client` for asyncio, with the same names::

    async with asyncio.timeout(60):
        print(await capstan.aio.Endpoint("<endpoint_id>").run_sync({"text": "hello"}))

Cancelling a call ends it immediately; a submitted job continues.
"""
from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Mapping, Optional, Sequence

from . import dispatch, http_async, jobs
from .functions import DeclaredEndpoint
from .handles import ChunkReading, EndpointHandle, JobHandle
from .http_async import close as close
from .jobs import Snapshot, Submission


class Endpoint(EndpointHandle):
    """A handle of a deployed endpoint. Its connections belong to the event loop that uses it."""

    async def run(
        self,
        input: Any,
        *,
        webhook: Optional[str] = None,
        policy: Optional[Mapping[str, Any]] = None,
        s3_config: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
    ) -> "Job":
        """Submits a job and returns its handle as soon as the service has stored it."""
        submission = Submission(webhook, policy, s3_config, idempotency_key, tags)
        return Job(self, await http_async.run(jobs.submit(self._connection(), self._path, input, submission)))

    async def run_sync(
        self,
        input: Any,
        timeout: Optional[float] = None,
        *,
        webhook: Optional[str] = None,
        policy: Optional[Mapping[str, Any]] = None,
        s3_config: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
    ) -> Any:
        """
        Submits a job, waits for its end and returns the result. ``timeout``: seconds; None waits until the end. Raises
        JobFailed, JobCancelled, JobTimedOut, Timeout.
        """
        submission = Submission(webhook, policy, s3_config, idempotency_key, tags)
        flow = jobs.submit_and_wait(self._connection(), self._path, input, submission, timeout)
        return Job(self, await http_async.run(flow))._result()

    runsync = run_sync

    def job(self, job_id: str) -> "Job":
        """Returns the handle of an earlier job."""
        return Job(self, Snapshot(id=job_id, status="IN_QUEUE"))

    async def health(self) -> Dict[str, Dict[str, int]]:
        """Returns counts of jobs and workers."""
        return await http_async.run(jobs.health(self._connection(), self._path))

    async def purge_queue(self) -> int:
        """Cancels every queued job; returns their number."""
        return await http_async.run(jobs.purge(self._connection(), self._path))

    def __repr__(self) -> str:
        return f"aio.Endpoint({self.id!r})"


async def run_sync(endpoint: DeclaredEndpoint, input: Any) -> Any:
    """As :meth:`capstan.declaration.Declaration.run_sync`."""
    return await http_async.run(dispatch.run_at(endpoint.name, input))


class Job(JobHandle):
    """A job that was submitted."""

    async def status(self) -> str:
        """Returns the current status. Raises NotFound for a deleted job."""
        return (await self.snapshot()).status

    async def snapshot(self) -> Snapshot:
        """Returns the current state of the job."""
        return await http_async.run(self._look())

    async def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end of the job, with or without a result. ``timeout``: seconds. Raises Timeout."""
        await http_async.run(self._wait(timeout))
        return self

    async def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and returns the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        return (await self.wait(timeout))._result()

    async def stream(self) -> AsyncIterator[Any]:
        """As :meth:`capstan.client.Job.stream`."""
        reading = ChunkReading(self)
        while not reading.over:
            for chunk in await http_async.run(reading.more()):
                yield chunk

    async def cancel(self) -> None:
        """Cancels the job, queued or running. A job that has ended keeps its state."""
        await http_async.run(self._cancel())

    async def retry(self) -> None:
        """Queues a failed or timed-out job again, with the same id and input. Raises Conflict in any other state."""
        await http_async.run(self._queue_again())

    def __repr__(self) -> str:
        return f"<aio.Job {self._last.id} {self._last.status}>"
