"""A queue-based endpoint as its callers use it (SPEC.md, Python SDK). The twin for asyncio is :mod:`capstan.aio`."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional

from . import http_sync, jobs
from .account import connection_of
from .endpoint import Endpoint
from .errors import ConnectionFailed, DeclarationError, JobError, job_error
from .exchange import Connection
from .jobs import Snapshot, Submission
from .retry import RetryPolicy


class EndpointClient(Endpoint):
    """A handle: ``Endpoint("<endpoint_id>")``. Safe to use from any thread."""

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
        ``api_key`` and ``base_url`` default to those of the module, read at each call. ``timeout``: seconds
        that one try of a call may take, beyond the wait it asks for.
        """
        given = endpoint_id if endpoint_id is not None else id
        if not isinstance(given, str) or not given:
            raise DeclarationError("Endpoint: id must be a string that is not empty, not %r" % (given,))
        self.id: str = given
        self._api_key = api_key
        self._base_url = base_url
        self._retry = retry
        self._timeout = timeout
        self._path = jobs.endpoint_path(given)

    def run(
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
        return Job(self, http_sync.run(jobs.submit(self._connection(), self._path, input, submission)))

    def run_sync(
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
        return Job(self, http_sync.run(flow)).output()

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

    def _connection(self) -> Connection:
        return connection_of(self._api_key, self._base_url, self._retry, self._timeout)

    def __repr__(self) -> str:
        return "Endpoint(%r)" % self.id


class Job:
    """A job that was submitted."""

    def __init__(self, endpoint: EndpointClient, snapshot: Snapshot) -> None:
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

    def status(self) -> str:
        """The present status. Raises NotFound for a job the service has forgotten."""
        return self.snapshot().status

    def snapshot(self) -> Snapshot:
        """Everything the service says about the job now."""
        self._last = http_sync.run(jobs.look(self._endpoint._connection(), self._endpoint._path, self.id))
        return self._last

    def wait(self, timeout: Optional[float] = None) -> "Job":
        """Waits for the end, however it ends. ``timeout``: seconds. Raises Timeout."""
        if not self.done:
            flow = jobs.wait_for_end(self._endpoint._connection(), self._endpoint._path, self._last, timeout)
            self._last = http_sync.run(flow)
        return self

    def output(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end and gives the result. Raises JobFailed, JobCancelled, JobTimedOut, Timeout."""
        last = self.wait(timeout)._last
        if last.status != "COMPLETED":
            raise self._ended()
        return last.output

    def stream(self) -> Iterator[Any]:
        """
        The chunks of a generator as they come, for as long as it runs, from the first that is kept. Raises what
        :meth:`output` raises, after the chunks. A connection that breaks loses none.
        """
        count = 0
        cursor: Optional[str] = jobs.STREAM_START
        while True:
            try:
                page = http_sync.run(jobs.read_chunks(self._endpoint._connection(), self._endpoint._path, self.id, cursor))
            except ConnectionFailed as lost:
                yield from jobs_left(self.output(), count, lost)
                return
            yield from page.chunks
            count += len(page.chunks)
            cursor = page.cursor
            # An answer that ends the job carries all the rest.
            if page.snapshot.done:
                if page.snapshot.status != "COMPLETED":
                    self._last = page.snapshot
                    raise self._ended()
                return

    def cancel(self) -> None:
        """Stops the job, queued or running. Raises Conflict when it had ended."""
        self._last = http_sync.run(jobs.cancel(self._endpoint._connection(), self._endpoint._path, self.id))

    def retry(self) -> None:
        """Queues a job that failed or timed out again, with the same id and input. Raises Conflict in any other state."""
        self._last = http_sync.run(jobs.retry(self._endpoint._connection(), self._endpoint._path, self.id))

    def _ended(self) -> JobError:
        return job_error(self._last.id, self._last.status, self._last.error, self)

    def __repr__(self) -> str:
        return "<Job %s %s>" % (self._last.id, self._last.status)


def jobs_left(output: Any, count: int, lost: ConnectionFailed) -> Iterator[Any]:
    """What of a generator's whole output was not streamed."""
    if not isinstance(output, list) or len(output) < count:
        raise lost
    return iter(output[count:])
