"""
Takes tasks back that no handler has entered, on the agent's request, in a process of its own: native code may hold the
interpreter of the host for any time, so that no thread of it runs.

The two processes claim a task by locking the byte of its number in a shared file, which the kernel grants to one of them.
"""
import fcntl
import os
import signal
import tempfile
import warnings

from .channel import CHANNEL_FD, ENTRY_FD, LIFELINE_FD

MAX_READ = 1 << 16


class Recalls:
    """Of a host that runs several attempts at a time: no other one has tasks that wait."""

    def __init__(self):
        self._file = tempfile.TemporaryFile()
        # A copy: the original is closed in children.
        entries = os.dup(ENTRY_FD)
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            # The child calls nothing that another thread may have locked.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                os.close(theirs)
                # A child of its own, so that os.wait() in user code waits for no process of ours.
                if os.fork() == 0:
                    self._serve(entries, ours)
            finally:
                os._exit(0)
        os.close(entries)
        os.close(ours)
        # Closed with this process.
        self._alive = theirs
        os.waitpid(child, 0)

    def claim(self, number):
        """Claims the task of this number; returns False for one that was taken back."""
        return _claim(self._file.fileno(), number)

    def _serve(self, entries, alive):
        import select

        # The host's group is asked to end by a signal; this process ends with the host.
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        for fd in (0, 1, 2, CHANNEL_FD, ENTRY_FD, LIFELINE_FD):
            _close(fd)
        have = b""
        poll = select.poll()
        poll.register(entries, select.POLLIN)
        poll.register(alive, select.POLLIN)
        while True:
            for fd, _events in poll.poll():
                data = os.read(fd, MAX_READ)
                if fd == alive or not data:
                    return
                lines = (have + data).split(b"\n")
                have = lines.pop()
                for line in lines:
                    number, _, key = line.partition(b" ")
                    if _claim(self._file.fileno(), int(number)):
                        os.write(entries, b"-" + key + b"\n")


def recalls_of(order):
    """Returns None for a worker that runs one attempt at a time."""
    return Recalls() if order["maxConcurrency"] > 1 and not order["httpFunctions"] else None


def _claim(fd, number):
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except BlockingIOError:
        # The other process has it.
        return False
    except PermissionError:
        # The same, on other systems.
        return False
    return True


def _close(fd):
    try:
        os.close(fd)
    except OSError:
        # Not open.
        return
