"""The operations on an endpoint and its jobs, as exchanges."""
from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote

from .errors import ConnectionFailed, Conflict, Timeout
from .exchange import Connection, Deadline, Flow, Pause, call, exchange, parsed

#: The longest wait requested in one call, seconds: proxies end longer ones.
LONGEST_WAIT = 60.0
#: The minimum wait of the service, seconds.
SHORTEST_WAIT = 1.0
#: How long a call for chunks may be held, seconds.
STREAM_WAIT = 8.0
#: How long beyond the deadline a requested response is awaited, seconds, because it has the job's id.
SLACK = 5.0

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")


@dataclass(frozen=True)
class Snapshot:
    """A job as returned by the service; times in milliseconds."""

    id: str
    #: IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED or TIMED_OUT.
    status: str
    #: The result when COMPLETED, the last progress update while IN_PROGRESS.
    output: Any = None
    error: Optional[str] = None
    #: Time from the submission to the start of the attempt.
    delay_time: Optional[int] = None
    #: Duration of the attempt.
    execution_time: Optional[int] = None
    worker_id: Optional[str] = None
    #: Started attempts beyond the first.
    retries: int = 0
    #: Why it waits, while IN_QUEUE.
    queue_reason: Optional[str] = None

    @property
    def done(self) -> bool:
        return self.status in TERMINAL


def read_snapshot(call_name: str, document: Any) -> Snapshot:
    """Parses a job. Raises ConnectionFailed for anything else."""
    if not isinstance(document, dict) or not isinstance(document.get("id"), str) or not isinstance(document.get("status"), str):
        raise ConnectionFailed(f"{call_name}: the response is not a job")
    return Snapshot(
        id=document["id"],
        status=document["status"],
        output=document.get("output"),
        error=document.get("error"),
        delay_time=document.get("delayTime"),
        execution_time=document.get("executionTime"),
        worker_id=document.get("workerId"),
        retries=document.get("retries", 0),
        queue_reason=document.get("queueReason"),
    )


def endpoint_path(endpoint_id: str) -> str:
    return f"/v2/{quote(endpoint_id, safe='')}"


@dataclass(frozen=True)
class Submission:
    """Input and options of a submission."""

    webhook: Optional[str] = None
    policy: Optional[Mapping[str, Any]] = None
    s3_config: Optional[Mapping[str, Any]] = None
    idempotency_key: Optional[str] = None
    tags: Optional[Sequence[str]] = None

    def body(self, value: Any) -> Dict[str, Any]:
        more = {"webhook": self.webhook, "policy": self.policy, "s3Config": self.s3_config, "tags": None if self.tags is None else list(self.tags)}
        return {"input": value, **{key: each for key, each in more.items() if each is not None}}

    def headers(self) -> Dict[str, str]:
        # One key for all attempts of this call: an attempt whose response was lost does not create a second job.
        return {"idempotency-key": self.idempotency_key or str(uuid.uuid4())}


def submit(connection: Connection, path: str, value: Any, submission: Submission) -> Flow[Snapshot]:
    """Submits a job without waiting for it."""
    document = yield from call(connection, "POST", f"{path}/run", body=submission.body(value), headers=submission.headers())
    return read_snapshot(f"POST {path}/run", document)


def submit_and_wait(connection: Connection, path: str, value: Any, submission: Submission, timeout: Optional[float]) -> Flow[Snapshot]:
    """Submits a job and waits for its end. Raises Timeout, with the job's id once it is known."""
    deadline = Deadline(timeout)
    wait = _wait_of(deadline)
    document = yield from call(
        connection,
        "POST",
        f"{path}/runsync?wait={int(wait * 1000)}",
        body=submission.body(value),
        headers=submission.headers(),
        wait=wait,
        deadline=None if timeout is None else Deadline(timeout + SLACK),
    )
    return (yield from _wait_until_end(connection, path, read_snapshot(f"POST {path}/runsync", document), deadline))


def wait_for_end(connection: Connection, path: str, snapshot: Snapshot, timeout: Optional[float]) -> Flow[Snapshot]:
    """Waits until the job has ended, with or without a result. Raises Timeout."""
    return (yield from _wait_until_end(connection, path, snapshot, Deadline(timeout)))


def _wait_until_end(connection: Connection, path: str, snapshot: Snapshot, deadline: Deadline) -> Flow[Snapshot]:
    while not snapshot.done:
        if deadline.is_over():
            raise Timeout(f"job {snapshot.id} is {snapshot.status} after {deadline.seconds or 0:g} s", snapshot.id)
        left = deadline.left()
        if left is not None and left < SHORTEST_WAIT:
            yield Pause(left)
            snapshot = yield from look(connection, path, snapshot.id)
            continue
        wait = _wait_of(deadline)
        where = f"{path}/status-sync/{quote(snapshot.id, safe='')}?wait={int(wait * 1000)}"
        snapshot = read_snapshot(f"GET {where}", (yield from call(connection, "GET", where, wait=wait)))
    return snapshot


def _wait_of(deadline: Deadline) -> float:
    """Returns the wait to request from the service, seconds."""
    left = deadline.left()
    return LONGEST_WAIT if left is None else max(SHORTEST_WAIT, min(LONGEST_WAIT, left))


def look(connection: Connection, path: str, job_id: str) -> Flow[Snapshot]:
    where = f"{path}/status/{quote(job_id, safe='')}"
    return read_snapshot(f"GET {where}", (yield from call(connection, "GET", where)))


def cancel(connection: Connection, path: str, job_id: str) -> Flow[Snapshot]:
    return (yield from _change(connection, path, job_id, "cancel", ("CANCELLED",)))


def retry(connection: Connection, path: str, job_id: str) -> Flow[Snapshot]:
    return (yield from _change(connection, path, job_id, "retry", ("IN_QUEUE", "IN_PROGRESS")))


def _change(connection: Connection, path: str, job_id: str, operation: str, wanted: Tuple[str, ...]) -> Flow[Snapshot]:
    where = f"{path}/{operation}/{quote(job_id, safe='')}"
    try:
        document = yield from call(connection, "POST", where)
    except Conflict as refused:
        # The first attempt may have succeeded although its response was lost.
        if refused.attempts == 1:
            raise
        found = yield from look(connection, path, job_id)
        if found.status not in wanted:
            raise
        return found
    return read_snapshot(f"POST {where}", document)


@dataclass(frozen=True)
class StreamPage:
    """Some chunks of a job."""

    snapshot: Snapshot
    chunks: List[Any]
    #: The reader's position after them; None from a service without positions.
    cursor: Optional[str]


#: The position before the first kept chunk.
STREAM_START = "0.0"


def read_chunks(connection: Connection, path: str, job_id: str, cursor: Optional[str]) -> Flow[StreamPage]:
    """
    Returns the chunks after a position. A service without positions returns each chunk once: a call whose response was
    lost is then not repeated and raises ConnectionFailed, and ``cursor`` is None.
    """
    where = f"{path}/stream/{quote(job_id, safe='')}?wait={int(STREAM_WAIT * 1000)}"
    if cursor is not None:
        where += f"&after={quote(cursor, safe='')}"
    repeats = cursor is not None and cursor != STREAM_START
    response = yield from exchange(connection, "GET", where, wait=STREAM_WAIT, repeats_when_unreachable=repeats)
    document = parsed(f"GET {where}", response.body)
    chunks = document.get("stream") if isinstance(document, dict) else None
    if not isinstance(chunks, list) or not isinstance(document.get("status"), str):
        raise ConnectionFailed(f"GET {where}: the response is not a stream")
    return StreamPage(
        snapshot=Snapshot(id=job_id, status=document["status"], error=document.get("error")),
        chunks=[each.get("output") if isinstance(each, dict) else each for each in chunks],
        cursor=response.headers.get("capstan-stream-cursor"),
    )


def health(connection: Connection, path: str) -> Flow[Dict[str, Dict[str, int]]]:
    document: Dict[str, Dict[str, int]] = yield from call(connection, "GET", f"{path}/health")
    return document


def purge(connection: Connection, path: str) -> Flow[int]:
    document = yield from call(connection, "POST", f"{path}/purge-queue")
    removed = document.get("removed") if isinstance(document, dict) else None
    return removed if isinstance(removed, int) else 0
