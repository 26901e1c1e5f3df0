"""Runs handlers in the main thread, in threads, or in the main thread's event loop."""
import queue
import threading

from .culprit import run_loop
from .interrupts import JobStopped, ThreadInterrupts


class MainRunner:
    """Runs one plain function at a time, in the main thread, as libraries expect; a signal can interrupt it."""

    def __init__(self, calls, interrupts):
        self._calls = calls
        self._interrupts = interrupts
        self._waiting = queue.SimpleQueue()

    def add(self, task):
        self._waiting.put(task)

    def stop(self, task):
        if not task.stop():
            self._interrupts.stop(task)

    def serve(self):
        while True:
            self._calls.run(self._waiting.get(), self._interrupts)


class ThreadRunner:
    """Runs plain functions concurrently, each in a thread."""

    def __init__(self, calls, at_once):
        self._calls = calls
        self._at_once = at_once
        self._interrupts = ThreadInterrupts()
        self._waiting = queue.SimpleQueue()
        self._threads = 0

    def add(self, task):
        self._waiting.put(task)
        if self._threads < min(self._at_once, len(self._calls.running)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"handler-{self._threads}", daemon=True).start()

    def stop(self, task):
        if not task.stop():
            self._interrupts.stop(task)

    def serve(self):
        # The main thread only needs to exist: it receives signals.
        threading.Event().wait()

    def _work(self):
        while True:
            try:
                self._calls.run(self._waiting.get(), self._interrupts)
            except JobStopped:
                # Its task has ended meanwhile; the stop is not for the next one.
                continue


class LoopRunner:
    """Runs any number of asynchronous functions concurrently, in one event loop."""

    def __init__(self, calls, loop, channel):
        self._calls = calls
        self._loop = loop
        self._channel = channel
        # The loop itself holds only weak references to tasks.
        self._alive = set()

    def add(self, task):
        task.loop = self._loop
        self._loop.call_soon_threadsafe(self._begin, task)

    def stop(self, task):
        task.stop()

    def serve(self):
        run_loop(self._loop, self._channel)

    def _begin(self, task):
        if task.stopped:
            self._calls.skip(task)
            return
        coroutine = self._calls.context().run(self._loop.create_task, self._calls.run_async(task))
        task.coroutine = coroutine
        self._alive.add(coroutine)

        def ended(_future):
            self._alive.discard(coroutine)
            # Cancelled before its first step: no part of it has run.
            if task.key in self._calls.running:
                self._calls.skip(task)

        coroutine.add_done_callback(ended)


def runner_for(calls, interrupts, loop, at_once, channel):
    """Returns the runner of a function. `loop` is that of an asynchronous function; None for a plain one."""
    if loop is not None:
        return LoopRunner(calls, loop, channel)
    return MainRunner(calls, interrupts) if at_once <= 1 else ThreadRunner(calls, at_once)
