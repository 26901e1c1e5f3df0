"""
Runs the asynchronous value of a function in one task from its first await to its last step, so that time-outs, task
groups and context variables hold over every `yield`.
"""
import asyncio
import collections
import concurrent.futures
import inspect

from .http_request import CallerGone


async def cancelled_while_waiting(source, error):
    """
    Returns the next value of an asynchronous iterator whose task was cancelled while its consumer was not ready. A
    time-out or task group of the generator has cancelled it, so the cancellation is raised at its `yield`.
    """
    throw = getattr(source, "athrow", None)
    if throw is None:
        raise error
    return await throw(error)


class AsyncSteps:
    """
    The asynchronous value of a route's function. Its task runs in the event loop; the request's thread waits for its
    result, or iterates over its values.
    """

    def __init__(self, loop, call):
        self._loop = loop
        self._call = call
        self._task = None
        self._is_closed = False
        # Futures of the values that the thread waits for.
        self._wanted = collections.deque()
        self._changed = None

    def run(self, value):
        """Returns what an awaitable returns; this object, an iterator, if that is an asynchronous iterator."""
        reply = concurrent.futures.Future()
        # The task gets a copy of this thread's context variables.
        self._loop.call_soon_threadsafe(self._begin, value, reply)
        self._call.task = self
        if self._call.gone:
            self.cancel()
        return self._result(reply)

    def __iter__(self):
        return self

    def __next__(self):
        reply = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._want, reply)
        try:
            return self._result(reply)
        except StopAsyncIteration:
            raise StopIteration from None

    def cancel(self):
        """Cancels the task; called from any thread."""
        self._loop.call_soon_threadsafe(self._cancel)

    def close(self):
        """Closes the iterator. Does not wait for its `finally` blocks."""
        self._call.task = None
        self._loop.call_soon_threadsafe(self._close)

    def _result(self, reply):
        try:
            return reply.result()
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            if self._call.gone:
                raise CallerGone("the caller disconnected") from None
            raise

    def _begin(self, value, reply):
        self._changed = asyncio.Event()
        self._task = self._loop.create_task(self._drive(value, reply))
        self._task.add_done_callback(lambda _task: self._ended(reply))

    def _want(self, reply):
        self._wanted.append(reply)
        if self._task.done():
            self._end_wanted()
        self._changed.set()

    def _cancel(self):
        self._task.cancel()

    def _close(self):
        self._is_closed = True
        if self._changed is not None:
            self._changed.set()

    async def _drive(self, value, reply):
        try:
            if inspect.isawaitable(value):
                value = await value
            if not hasattr(value, "__aiter__"):
                reply.set_result(value)
                return
            source = value.__aiter__()
        except BaseException as error:
            _fail(reply, error)
            return
        reply.set_result(self)
        await self._serve(source)

    async def _serve(self, source):
        ready = collections.deque()
        while not self._is_closed:
            try:
                while not self._wanted and not self._is_closed:
                    self._changed.clear()
                    await self._changed.wait()
            except asyncio.CancelledError as error:
                if self._call.gone:
                    break
                ready.append(await _outcome(cancelled_while_waiting(source, error)))
                continue
            if self._is_closed:
                break
            value, error = ready.popleft() if ready else await _outcome(source.__anext__())
            reply = self._wanted.popleft()
            if error is None:
                reply.set_result(value)
            else:
                _fail(reply, error)
                return
        close = getattr(source, "aclose", None)
        if close is not None:
            # Errors of its `finally` blocks do not replace the response's outcome.
            await _outcome(close())

    def _ended(self, reply):
        if not reply.done():
            # Cancelled before its first step.
            reply.set_exception(asyncio.CancelledError())
        self._end_wanted()

    def _end_wanted(self):
        """Ends what waits for a value of a task that has ended."""
        while self._wanted:
            self._wanted.popleft().set_exception(StopAsyncIteration())


async def _outcome(step):
    """Returns (value, None) or (None, error)."""
    try:
        return await step, None
    except BaseException as error:
        return None, error


def _fail(reply, error):
    reply.set_exception(error)
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        # Ends the worker, as in any program.
        raise error
