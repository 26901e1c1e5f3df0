"""
Sends the handlers' output as lines of their job. The agent reads output that bypasses sys.stdout from the pipes.
"""
import atexit
import collections
import contextvars
import io
import sys
import threading
import time

from .channel import utf8

# Longest piece of a line that stays together, and longest text of one frame, characters.
MAX_LINE = 16384

# The task of the current code: threads and coroutines have one each.
current_task = contextvars.ContextVar("capstan_task", default=None)


class OutputLimiter:
    """
    Limits the cost of output, by the rules of agent/runtimes/output-limiter.ts. Not thread-safe: its caller holds a
    lock.
    """

    LINE_COST = 64
    BURST = 1024 * 1024
    PER_SECOND = 1024 * 1024
    KEPT = 256 * 1024
    TAIL = 16 * 1024
    MAX_PIECE = 16 * 1024
    LOOK_S = 0.25

    def __init__(self, send, lock):
        self._send = send
        self._lock = lock
        self._budget = self.BURST
        self._filled_at = time.monotonic()
        # Of [stream, job, texts, cost, characters].
        self._pieces = collections.deque()
        self._kept = 0
        self._left_out = 0
        self._timer = None

    def add(self, stream, job, text):
        cost = self._cost_of(text)
        if not self._pieces and self._take(cost):
            self._send(stream, job, text)
            return
        if cost > self.KEPT:
            kept = self._tail_of(text)
            self._left_out += len(text) - len(kept)
            text, cost = kept, self._cost_of(kept)
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last[0] == stream and last[1] == job and last[3] + cost <= self.MAX_PIECE:
            last[2].append(text)
            last[3] += cost
            last[4] += len(text)
        else:
            self._pieces.append([stream, job, [text], cost, len(text)])
        self._kept += cost
        if self._kept > 2 * self.KEPT:
            self._keep(self.KEPT)
        self._look_later()

    def flush(self):
        if not self._pieces:
            return
        self._refill()
        self._keep(max(self.TAIL, min(self.KEPT, self.KEPT + self._budget)))
        self._budget -= self._kept
        while self._pieces:
            self._leave(self._pieces.popleft())

    def _look_later(self):
        if self._timer is None:
            self._timer = threading.Timer(self.LOOK_S, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self):
        with self._lock:
            self._timer = None
            self._keep(self.KEPT)
            while self._pieces and self._take(self._pieces[0][3]):
                self._leave(self._pieces.popleft())
            if self._pieces:
                self._look_later()

    def _leave(self, piece):
        stream, job, texts, cost, _characters = piece
        self._kept -= cost
        if self._left_out > 0:
            self._send(stream, job, f"({self._left_out} characters of output are omitted: too much was printed at once)\n")
            self._left_out = 0
        self._send(stream, job, "".join(texts))

    def _keep(self, most):
        while self._kept > most and len(self._pieces) > 1:
            _stream, _job, _texts, cost, characters = self._pieces.popleft()
            self._kept -= cost
            self._left_out += characters

    def _take(self, cost):
        if self._budget < cost:
            self._refill()
        if self._budget < cost:
            return False
        self._budget -= cost
        return True

    def _cost_of(self, text):
        return len(text) + self.LINE_COST * text.count("\n")

    def _tail_of(self, text):
        """Returns the last lines that are kept; of one longer line its end."""
        left, start = self.KEPT, len(text)
        while start > 0:
            line = text.rfind("\n", 0, start - 1) + 1
            left -= start - line + self.LINE_COST
            if left < 0:
                break
            start = line
        return text[start:] or text[-self.KEPT :]

    def _refill(self):
        now = time.monotonic()
        self._budget = min(self.BURST, self._budget + (now - self._filled_at) * self.PER_SECOND)
        self._filled_at = now


class LateLines:
    """Sends unfinished lines that their writer does not flush, in a thread that sleeps while nothing is printed."""

    EVERY_S = 0.25

    def __init__(self, lock):
        self._lock = lock
        # Tasks and their unfinished lines, by stream and by the identity of those.
        self._unfinished = {}
        self._has_some = threading.Event()
        self.streams = {}

    def start(self):
        threading.Thread(target=self._run, name="capstan-output", daemon=True).start()

    def add(self, stream, task, rest):
        """Called with the lock held."""
        self._unfinished[stream, id(rest)] = (task, rest)
        if not self._has_some.is_set():
            self._has_some.set()

    def _run(self):
        while True:
            self._has_some.wait()
            # print() writes a text and its line end one after the other: most lines are whole by then.
            time.sleep(self.EVERY_S)
            with self._lock:
                unfinished, self._unfinished = self._unfinished, {}
                self._has_some.clear()
                for (stream, _identity), (task, rest) in unfinished.items():
                    self.streams[stream].send_rest(task, rest)


class LogStream(io.TextIOBase):
    """Replaces sys.stdout or sys.stderr."""

    def __init__(self, name, original, channel, interrupts, sole_task, limiter, lock, late):
        super().__init__()
        self._name = name
        self._original = original
        self._channel = channel
        self._interrupts = interrupts
        self._sole_task = sole_task
        self._limiter = limiter
        self._lock = lock
        # The unfinished line of unknown jobs.
        self._rest = {}
        # Sends unfinished lines that are not flushed.
        self._late = late

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
                self._limiter.add(self._name, job, whole[:end])
            if end < len(whole):
                self._late.add(self._name, task, rest)
        return len(text)

    def send_rest(self, task, rest):
        """Sends what there is of an unfinished line; the agent makes lines of it."""
        with self._interrupts, self._lock:
            text = rest.pop(self._name, "")
            if text:
                self._limiter.add(self._name, "" if task is None else task.job_id, text)

    def end_line(self, task):
        """Sends the last line of a job, which may lack a line end and must not arrive after the job's end."""
        self.send_rest(task, task.rest)
        with self._interrupts, self._lock:
            self._limiter.flush()

    def flush(self):
        # Its buffer may have been written to.
        if not self._original.closed:
            self._original.flush()
        if not self._channel.is_open:
            return
        task = current_task.get() or self._sole_task()
        self.send_rest(task, self._rest if task is None else task.rest)

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._original.fileno()

    def reconfigure(self, **_options):
        """Ignores all options of io.TextIOWrapper.reconfigure: lines are UTF-8 and are sent as they end."""

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


def pieces_of(text):
    """Yields parts for one frame each, which end with a line where one ends."""
    at = 0
    while at < len(text):
        end = at + MAX_LINE
        line = text.rfind("\n", at, end) + 1 if end < len(text) else 0
        cut = line if line > at else end
        yield text[at:cut]
        at = cut


def capture_output(channel, interrupts, sole_task):
    """Replaces sys.stdout and sys.stderr; returns a function that ends a task's lines."""
    lock = threading.RLock()

    def send(stream, job, text):
        # Its timer may find the channel closed.
        if channel.is_open:
            for piece in pieces_of(text):
                channel.send({"t": "log", "stream": stream, "jobId": job}, utf8(piece))

    limiter = OutputLimiter(send, lock)

    def end():
        with interrupts, lock:
            limiter.flush()

    atexit.register(end)
    late = LateLines(lock)
    streams = [
        LogStream("stdout", sys.stdout, channel, interrupts, sole_task, limiter, lock, late),
        LogStream("stderr", sys.stderr, channel, interrupts, sole_task, limiter, lock, late),
    ]
    late.streams = dict(zip(("stdout", "stderr"), streams))
    late.start()
    sys.stdout, sys.stderr = streams

    def end_lines(task):
        for stream in streams:
            stream.end_line(task)

    return end_lines
