"""
What code in a worker may ask about the work it is part of, a job or a request: to be told when that is stopped.
The SDK's stubs find this module by its name, and stop then what they wait for at other endpoints.
"""
import contextvars
import threading

current = contextvars.ContextVar("capstan_work", default=None)


class Stopping:
    """Tells its listeners once that the work is stopped, each in a thread of its own: they may block."""

    def __init__(self):
        self._lock = threading.Lock()
        self._listeners = []
        self._stopped = False

    def stop(self):
        with self._lock:
            self._stopped = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            _begin(listener)

    def add(self, listener):
        with self._lock:
            if not self._stopped:
                self._listeners.append(listener)
                return
        _begin(listener)

    def remove(self, listener):
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


def _begin(listener):
    threading.Thread(target=listener, name="capstan-stop", daemon=True).start()


def on_stop(listener):
    """Calls `listener` when the work that calls this is stopped; gives a function that calls that off."""
    work = current.get()
    if work is None:
        return lambda: None
    work.add(listener)
    return lambda: work.remove(listener)
