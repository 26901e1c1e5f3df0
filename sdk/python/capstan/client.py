"""The client of a queue-based endpoint. :mod:`capstan.aio` is the same for asyncio."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

from . import http_sync, jobs
from .handles import ChunkReading, EndpointHandle, JobHandle
from .jobs import Snapshot, Submission


class EndpointClient(EndpointHandle):
    """A handle: ``Endpoint("<endpoint_id>")``. Thread-safe."""

    def run(
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
        return Job(self, http_sync.run(jobs.submit(self._connection(), self._path, input, submission)))

    def run_sync(
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
        return Job(self, http_sync.run(flow))._result()

    runsync = run_sync

    def job(self, job_id: str) -> "Job":
        """Returns the handle of an earlier job."""
        return Job(self, Snapshot(id=job_id, status="IN_QUEUE"))

    def health(self) -> Dict[str, Dict[str, int]]:
        """Returns counts of jobs and workers."""
        return http_sync.run(jobs.health(self._connection(), self._path))

    def purge_queue(self) -> int:
        """Cancels every queued job; returns their number."""
        return http_sync.run(jobs.purge(self._connection(), self._path))

    def __repr__(self) -> str:
        return f"Endpoint({self.id!r})"


class Job(JobHandle):
    """A job that was submitted."""

    def status(self) -> str:
        """Returns the current status. Raises NotFound for a deleted job."""
        return self.snapshot().status

    def snapshot(self) -> Snapshot:
        """Returns the current state of the job."""
        return http_sync.run(self._look())

    def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end of the job, with or without a result. ``timeout``: seconds. Raises Timeout."""
        http_sync.run(self._wait(timeout))
        return self

    def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and returns the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        return self.wait(timeout)._result()

    def stream(self) -> Iterator[Any]:
        """
        Yields the chunks of a generator as they arrive, from the first kept one, until it ends. Raises what
        :meth:`output` raises, after the chunks. A broken connection loses no chunk.
        """
        reading = ChunkReading(self)
        while not reading.over:
            yield from http_sync.run(reading.more())

    def cancel(self) -> None:
        """Cancels the job, queued or running. A job that has ended keeps its state."""
        http_sync.run(self._cancel())

    def retry(self) -> None:
        """Queues a failed or timed-out job again, with the same id and input. Raises Conflict in any other state."""
        http_sync.run(self._queue_again())

    def __repr__(self) -> str:
        return f"<Job {self._last.id} {self._last.status}>"
