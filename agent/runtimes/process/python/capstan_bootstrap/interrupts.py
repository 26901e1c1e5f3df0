"""Stops a blocking handler by an exception raised inside it."""
import ctypes
import signal
import threading


class JobStopped(KeyboardInterrupt):
    """The job was cancelled or timed out. Libraries clean up after it as after Ctrl+C."""


class MainInterrupts:
    """
    Interrupts the main thread with SIGINT, which also wakes it from a system call. As a context manager it delays the
    interrupt: a partial frame must never remain on the channel.
    """

    def __init__(self):
        self._main = threading.main_thread().ident
        self._held = 0
        self._due = False
        # The task whose handler runs in the main thread.
        self.current = None

    def install(self):
        signal.signal(signal.SIGINT, lambda _signal, _frame: self._interrupt())

    def enter(self, task):
        self.current = task
        if task.stopped:
            self._interrupt()

    def leave(self, task):
        self.current = None

    def stop(self, task):
        """Called from another thread; the task is already marked as stopped."""
        if self.current is task:
            signal.pthread_kill(self._main, signal.SIGINT)

    def __enter__(self):
        if threading.get_ident() == self._main:
            self._held += 1

    def __exit__(self, *_error):
        if threading.get_ident() != self._main:
            return
        self._held -= 1
        if self._held == 0 and self._due:
            self._due = False
            self._interrupt()

    def _interrupt(self):
        task = self.current
        # A late signal must not hit the next task.
        if task is None or not task.stopped:
            return
        if self._held > 0:
            self._due = True
            return
        # Only once: the handler's cleanup is not interrupted.
        self.current = None
        raise JobStopped("the job was stopped")


class ThreadInterrupts:
    """Interrupts any thread as soon as it runs Python code again; a blocking call continues."""

    def enter(self, task):
        with task.wake:
            task.thread = threading.get_ident()
        if task.stopped:
            raise JobStopped("the job was stopped")

    def leave(self, task):
        while True:
            try:
                with task.wake:
                    thread, task.thread = task.thread, None
                if thread is not None:
                    _raise_in(thread, None)
                return
            except JobStopped:
                # It arrived just now: no other one will follow.
                task.thread = None
                return

    def stop(self, task):
        with task.wake:
            if task.thread is not None:
                _raise_in(task.thread, JobStopped)


def _raise_in(thread, error):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error))
