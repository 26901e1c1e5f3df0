"""One call of the user's function: its input, its context, its chunks, its end."""
import asyncio
import contextvars
import inspect
import sys
import threading
import time

from . import stopping
from .arguments import InputError
from .async_steps import cancelled_while_waiting
from .channel import utf8
from .culprit import current_key, end_process, report_culprit
from .interrupts import JobStopped
from .json_input import NumberOutOfRange, read_json
from .logs import current_task
from .output import Aggregate, OutputError, chunk_bytes, error_message, error_stack, result_bytes
from .task import Context
from .tracing import traced


class Calls:
    """Runs tasks to their ends, including failures, and reports to the agent; never raises."""

    def __init__(self, choice, endpoint_id, channel, end_lines, processes):
        self._choice = choice
        # Ends those of stopped attempts; None where several attempts run at a time.
        self._processes = processes
        self._endpoint_id = endpoint_id
        self._channel = channel
        self._end_lines = end_lines
        self._loops = threading.local()
        # What the module set while it was loaded; each job gets a copy, so that none sees what another one set.
        self._base = contextvars.copy_context()
        self.running = {}

    def sole_task(self):
        """Returns the only running task: output from an unknown task is attributed to it."""
        tasks = list(self.running.values())
        return tasks[0] if len(tasks) == 1 else None

    def skip(self, task):
        """Ends a task that was stopped before its handler was entered."""
        self.running.pop(task.key, None)
        self._channel.send({"t": "stopped", "key": task.key, "ms": 0, "entered": False})

    def context(self):
        """Returns the context variables that a job begins with."""
        return self._base.copy()

    def run(self, task, interrupts):
        """Runs in a thread that the handler may block."""
        if not task.claim():
            self.running.pop(task.key, None)
            return
        if task.stopped:
            self.skip(task)
            return
        self.context().run(self._run, task, interrupts)

    def _run(self, task, interrupts):
        current_task.set(task)
        stopping.current.set(task.stopping)
        current_key.set(task.key)
        if self._processes is not None:
            self._processes.begin()
        self._channel.enter(task.key)
        began = time.perf_counter()
        try:
            try:
                interrupts.enter(task)
                with traced(task.trace):
                    body = self._produce(task)
                interrupts.leave(task)
                end = ({"t": "returned"}, body)
            except BaseException as error:
                interrupts.leave(task)
                end = self._failed(task, error)
        except JobStopped:
            # The stop arrived while another end was being recorded: the task still counts as stopped.
            end = ({"t": "stopped"}, b"")
        self._finish(task, end, began)

    async def run_async(self, task):
        """Runs in the event loop of the main thread, in a task that was created within `context()`."""
        if not task.claim():
            self.running.pop(task.key, None)
            return
        current_task.set(task)
        stopping.current.set(task.stopping)
        current_key.set(task.key)
        if self._processes is not None:
            self._processes.begin()
        self._channel.enter(task.key)
        began = time.perf_counter()
        try:
            fn, positional, by_name = self._bind(task)
            with traced(task.trace):
                end = ({"t": "returned"}, await self._await_value(task, fn(*positional, **by_name)))
        except BaseException as error:
            end = self._failed(task, error)
        self._finish(task, end, began)

    def _bind(self, task):
        try:
            value = read_json(task.input.decode())
        except RecursionError:
            raise InputError("input: is nested too deeply") from None
        except NumberOutOfRange as error:
            raise InputError(f"input: {error}") from None
        except ValueError:
            raise InputError("input: must be JSON") from None
        return self._choice.bind(value, Context(task, self._endpoint_id, self._channel))

    def _produce(self, task):
        fn, positional, by_name = self._bind(task)
        value = fn(*positional, **by_name)
        if inspect.isawaitable(value) or hasattr(value, "__aiter__"):
            return self._on_own_loop(task, value)
        if hasattr(value, "__next__"):
            return self._collect(task, value)
        return result_bytes(value)

    def _on_own_loop(self, task, value):
        """Runs the asynchronous result of a plain function, as decorators produce it."""
        loop = getattr(self._loops, "loop", None)
        if loop is None:
            # Kept, so that later calls can reuse what a call leaves in it (connections).
            loop = self._loops.loop = asyncio.new_event_loop()
        task.coroutine = loop.create_task(self._await_value(task, value))
        task.loop = loop
        if task.stopped:
            task.coroutine.cancel()
        try:
            return loop.run_until_complete(task.coroutine)
        finally:
            task.loop = None

    async def _await_value(self, task, value):
        if inspect.isawaitable(value):
            value = await value
        if hasattr(value, "__aiter__"):
            return await self._collect_async(task, value.__aiter__())
        if hasattr(value, "__next__"):
            return await self._collect_async(task, _Stepped(value))
        return result_bytes(value)

    def _collect(self, task, source):
        """Sends each value as a chunk within the credits, and returns all of them as the result."""
        everything = Aggregate()
        sent = 0
        try:
            while True:
                with task.wake:
                    while sent >= task.credits and not task.stopped:
                        task.wake.wait()
                if task.stopped:
                    raise JobStopped("the job was stopped")
                try:
                    value = next(source)
                except StopIteration:
                    return everything.to_bytes()
                self._send_chunk(task, value, everything)
                sent += 1
        except BaseException:
            _close(source)
            raise

    async def _collect_async(self, task, source):
        everything = Aggregate()
        sent = 0
        task.credited = asyncio.Event()
        try:
            while True:
                try:
                    value = await self._next_value(task, source, sent)
                except StopAsyncIteration:
                    return everything.to_bytes()
                self._send_chunk(task, value, everything)
                sent += 1
        except BaseException:
            close = getattr(source, "aclose", None)
            if close is not None:
                try:
                    await close()
                except BaseException:
                    # Errors of its `finally` blocks do not replace the job's outcome.
                    pass
            raise

    async def _next_value(self, task, source, sent):
        """Waits for credit, then for the value."""
        try:
            while sent >= task.credits and not task.stopped:
                task.credited.clear()
                if sent >= task.credits:
                    await task.credited.wait()
            # A generator that never waits would block the loop.
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            if task.stopped:
                raise
            return await cancelled_while_waiting(source, error)
        if task.stopped:
            raise asyncio.CancelledError()
        return await source.__anext__()

    def _send_chunk(self, task, value, everything):
        data = chunk_bytes(value)
        everything.add(data)
        self._channel.send({"t": "chunk", "key": task.key}, data)

    def _failed(self, task, error):
        if isinstance(error, SystemExit) and not task.stopped:
            self._exit(task, error.code)
        # Output of a handler after it was asked to stop is ignored.
        if not task.stopped and not isinstance(error, (InputError, OutputError)):
            sys.stderr.write(error_stack(error))
        return ({"t": "failed"}, utf8(error_message(error)))

    def _exit(self, task, code):
        """Ends the worker after sys.exit() in a handler, as it would end any program."""
        report_culprit(self._channel, task.key)
        self._end_lines(task)
        end_process(code)

    def _finish(self, task, end, began):
        ms = (time.perf_counter() - began) * 1000
        self._end_lines(task)
        self.running.pop(task.key, None)
        header, body = end
        if task.stopped:
            header, body = {"t": "stopped", "entered": True}, b""
            if self._processes is not None:
                self._channel.send({"t": "clearing", "key": task.key})
                self._processes.end()
        header.update(key=task.key, ms=ms)
        self._channel.send(header, body)


class _Stepped:
    """A plain generator, iterated in the event loop."""

    def __init__(self, source):
        self._source = source

    async def __anext__(self):
        try:
            return next(self._source)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self):
        _close(self._source)


def _close(source):
    close = getattr(source, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException:
        # Errors of its `finally` blocks do not replace the job's outcome.
        return
