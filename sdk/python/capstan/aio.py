"""
The handle of :mod:`capstan.client` for asyncio, with the same names::

    async with asyncio.timeout(60):
        print(await capstan.aio.Endpoint("<endpoint_id>").run_sync({"text": "hello"}))

Cancelling a call ends it at once; a job that was submitted runs on.
"""
from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Mapping, Optional

from . import dispatch, http_async, jobs
from .functions import DeclaredEndpoint
from .handles import ChunkReading, EndpointHandle, JobHandle
from .http_async import close as close
from .jobs import Snapshot, Submission


class Endpoint(EndpointHandle):
    """A handle of an endpoint that runs. Its connections belong to the event loop that uses it."""

    async def run(
        self,
        input: Mapping[str, Any],
        *,
        webhook: Optional[str] = None,
        policy: Optional[Mapping[str, Any]] = None,
        s3_config: Optional[Mapping[str, Any]] = None,
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
        s3_config: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Any:
        """
        Submits a job, waits for its end and gives the result. ``timeout``: seconds; None waits as long as it
        takes. Raises JobFailed, JobCancelled, JobTimedOut, Timeout.
        """
        submission = Submission(webhook, policy, s3_config, idempotency_key)
        flow = jobs.submit_and_wait(self._connection(), self._path, input, submission, timeout)
        return Job(self, await http_async.run(flow))._result()

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

    def __repr__(self) -> str:
        return f"aio.Endpoint({self.id!r})"


async def run_sync(endpoint: DeclaredEndpoint, input: Mapping[str, Any]) -> Any:
    """As :meth:`capstan.declaration.Declaration.run_sync`."""
    return await http_async.run(dispatch.run_at(endpoint.name, input))


class Job(JobHandle):
    """A job that was submitted."""

    async def status(self) -> str:
        """The present status. Raises NotFound for a job the service has forgotten."""
        return (await self.snapshot()).status

    async def snapshot(self) -> Snapshot:
        """Everything the service says about the job now."""
        return await http_async.run(self._look())

    async def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end, however it ends. ``timeout``: seconds. Raises Timeout."""
        await http_async.run(self._wait(timeout))
        return self

    async def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and gives the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        return (await self.wait(timeout))._result()

    async def stream(self) -> AsyncIterator[Any]:
        """As :meth:`capstan.client.Job.stream`."""
        reading = ChunkReading(self)
        while not reading.over:
            for chunk in await http_async.run(reading.more()):
                yield chunk

    async def cancel(self) -> None:
        """Stops the job, queued or running. Raises Conflict when it had ended."""
        await http_async.run(self._cancel())

    async def retry(self) -> None:
        """Queues a job that failed or timed out again, with the same id and input. Raises Conflict in any other state."""
        await http_async.run(self._queue_again())

    def __repr__(self) -> str:
        return f"<aio.Job {self._last.id} {self._last.status}>"
