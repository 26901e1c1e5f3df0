"""One job on this worker, and the context of its handler."""
import threading
from types import SimpleNamespace

from .output import progress_bytes
from .stopping import Stopping
from .tracing import traceparent_of

# Chunks that a generator may be ahead of its granted credits (agent/runtimes/runtime.ts).
FIRST_CREDITS = 32


class Task:
    """One task. `wake` guards the state that the reader thread changes while the handler runs."""

    def __init__(self, header, body, recalls):
        self.key = header["key"]
        self._no = header["no"]
        self._recalls = recalls
        self.job_id = header["jobId"]
        self.attempt = header["attempt"]
        self.s3_config = header.get("s3Config")
        self.trace = header.get("trace", "")
        self.input = body
        self.stopped = False
        self.stopping = Stopping()
        self.credits = FIRST_CREDITS
        self.wake = threading.Condition()
        # The thread whose handler may be interrupted.
        self.thread = None
        # The event loop and the coroutine that run it, when it is asynchronous.
        self.loop = None
        self.coroutine = None
        self.credited = None
        # Unfinished lines, by stream.
        self.rest = {}

    def claim(self):
        """Called once, when the handler is about to be entered; returns False for a task that was taken back."""
        return self._recalls is None or self._recalls.claim(self._no)

    def grant(self, count):
        with self.wake:
            self.credits += count
            self.wake.notify_all()
        self._tell_loop(self._set_credited)

    def stop(self):
        with self.wake:
            self.stopped = True
            self.wake.notify_all()
        self.stopping.stop()
        return self._tell_loop(self._cancel)

    def _set_credited(self):
        if self.credited is not None:
            self.credited.set()

    def _cancel(self):
        if self.coroutine is not None:
            self.coroutine.cancel()

    def _tell_loop(self, work):
        loop = self.loop
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(work)
        except RuntimeError:
            # The loop is closed: its coroutine has ended.
            return False
        return True


class Context:
    """The argument for a parameter `ctx`, or a last one `context`."""

    def __init__(self, task, endpoint_id, channel):
        self._task = task
        self._channel = channel
        self.job_id = task.job_id
        self.endpoint_id = endpoint_id
        # 1 for the first started attempt.
        self.attempt = task.attempt
        # As the caller sent it, a dict; None without.
        self.s3_config = task.s3_config
        # W3C trace context of the job, for programs that continue the trace; None without.
        self.traceparent = traceparent_of(task.trace)

    @property
    def stopped(self):
        """True once the job is cancelled or timed out; one second later its handler is stopped by force."""
        return self._task.stopped

    def progress(self, value):
        """Reports progress; status calls return the latest value. At most 64 KiB of JSON."""
        self._channel.send({"t": "progress", "key": self._task.key}, progress_bytes(value))

    def __repr__(self):
        # The storage credentials must not appear in logs.
        return repr(SimpleNamespace(job_id=self.job_id, endpoint_id=self.endpoint_id, attempt=self.attempt))
