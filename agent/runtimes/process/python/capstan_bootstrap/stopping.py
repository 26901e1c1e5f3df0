"""
Notifies code in a worker when its current job or request is stopped. The SDK's stubs find this module by its name, and
then cancel their calls to other endpoints.
"""
import contextvars
import threading

current = contextvars.ContextVar("capstan_work", default=None)


class Stopping:
    """Notifies its listeners once when the work is stopped, each in a separate thread: they may block."""

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
    """Calls `listener` when the calling code's work is stopped; returns a function that cancels this."""
    work = current.get()
    if work is None:
        return lambda: None
    work.add(listener)
    return lambda: work.remove(listener)
