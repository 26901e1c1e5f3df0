"""A queue-based endpoint as its callers use it. The twin for asyncio is :mod:`capstan.aio`."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional

from . import http_sync, jobs
from .handles import ChunkReading, EndpointHandle, JobHandle
from .jobs import Snapshot, Submission


class EndpointClient(EndpointHandle):
    """A handle: ``Endpoint("<endpoint_id>")``. Safe to use from any thread."""

    def run(
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
        return Job(self, http_sync.run(jobs.submit(self._connection(), self._path, input, submission)))

    def run_sync(
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
        return Job(self, http_sync.run(flow))._result()

    runsync = run_sync

    def job(self, job_id: str) -> "Job":
        """The handle of a job that was submitted before."""
        return Job(self, Snapshot(id=job_id, status="IN_QUEUE"))

    def health(self) -> Dict[str, Dict[str, int]]:
        """Counts of jobs and workers."""
        return http_sync.run(jobs.health(self._connection(), self._path))

    def purge_queue(self) -> int:
        """Ends every job that waits in the queue; how many there were."""
        return http_sync.run(jobs.purge(self._connection(), self._path))

    def __repr__(self) -> str:
        return f"Endpoint({self.id!r})"


class Job(JobHandle):
    """A job that was submitted."""

    def status(self) -> str:
        """The present status. Raises NotFound for a job the service has forgotten."""
        return self.snapshot().status

    def snapshot(self) -> Snapshot:
        """Everything the service says about the job now."""
        return http_sync.run(self._look())

    def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end, however it ends. ``timeout``: seconds. Raises Timeout."""
        http_sync.run(self._wait(timeout))
        return self

    def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and gives the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        return self.wait(timeout)._result()

    def stream(self) -> Iterator[Any]:
        """
        The chunks of a generator as they come, for as long as it runs, from the first that is kept. Raises what
        :meth:`output` raises, after the chunks. A connection that breaks loses none.
        """
        reading = ChunkReading(self)
        while not reading.over:
            yield from http_sync.run(reading.more())

    def cancel(self) -> None:
        """Stops the job, queued or running. Raises Conflict when it had ended."""
        http_sync.run(self._cancel())

    def retry(self) -> None:
        """Queues a job that failed or timed out again, with the same id and input. Raises Conflict in any other state."""
        http_sync.run(self._queue_again())

    def __repr__(self) -> str:
        return f"<Job {self._last.id} {self._last.status}>"
