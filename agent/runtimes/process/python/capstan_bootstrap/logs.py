"""What handlers print, as lines of their job. What does not go through sys.stdout the agent reads from the pipes."""
import contextvars
import io
import sys
import threading

# Longest piece of a line that is kept together, characters.
MAX_LINE = 16384

# The task whose code runs here: threads and coroutines have one each.
current_task = contextvars.ContextVar("capstan_task", default=None)


class LogStream(io.TextIOBase):
    """Takes the place of sys.stdout or sys.stderr."""

    def __init__(self, name, original, channel, interrupts, sole_task):
        super().__init__()
        self._name = name
        self._original = original
        self._channel = channel
        self._interrupts = interrupts
        self._sole_task = sole_task
        self._lock = threading.RLock()
        # The line that no known job has begun.
        self._rest = {}

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        if not self._channel.is_open:
            return self._original.write(text)
        task = current_task.get() or self._sole_task()
        rest = self._rest if task is None else task.rest
        with self._interrupts, self._lock:
            whole = rest.get(self._name, "") + text
            end = len(whole) if len(whole) > MAX_LINE else whole.rfind("\n") + 1
            rest[self._name] = whole[end:]
            if end > 0:
                job = "" if task is None else task.job_id
                self._channel.send({"t": "log", "stream": self._name, "jobId": job, "text": whole[:end]})
        return len(text)

    def end_line(self, task):
        """The last line of a job may lack its end, and must not come after the job's."""
        if task.rest.get(self._name):
            self.write("\n")

    def flush(self):
        # Whole lines have left; a half one waits for its end.
        if not self._channel.is_open:
            self._original.flush()

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._original.fileno()

    def reconfigure(self, **_options):
        """As io.TextIOWrapper has it; lines are UTF-8 and leave as they end, whatever is asked."""

    @property
    def buffer(self):
        return self._original.buffer

    @property
    def name(self):
        return "<" + self._name + ">"

    @property
    def encoding(self):
        return "utf-8"

    @property
    def errors(self):
        return "backslashreplace"


def capture_output(channel, interrupts, sole_task):
    """Replaces sys.stdout and sys.stderr; returns what ends a task's lines."""
    streams = [
        LogStream("stdout", sys.stdout, channel, interrupts, sole_task),
        LogStream("stderr", sys.stderr, channel, interrupts, sole_task),
    ]
    sys.stdout, sys.stderr = streams

    def end_lines(task):
        for stream in streams:
            stream.end_line(task)

    return end_lines
