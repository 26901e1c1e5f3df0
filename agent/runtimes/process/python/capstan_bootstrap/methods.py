"""
Maps a module's attribute to the callable for an input. A function is called directly. A class is instantiated once per
worker; if it has several public methods, the input's key `method` selects one.
"""
import functools
import inspect

from .arguments import InputError, Signature
from .loading import LoadError


class Sole:
    """A function."""

    def __init__(self, fn):
        self._fn = fn
        self._signature = Signature(fn)
        self.is_async = is_async(fn)

    def bind(self, value, context):
        """Returns (function, positional, by name) for one call. Raises InputError."""
        return (self._fn,) + self._signature.bind(value, context)


class Methods:
    """A class: its public methods, or `__call__` if it has no other."""

    def __init__(self, made):
        instance = _make(made)
        names = [name for name in dir(made) if not name.startswith("_") and _is_method(made, name)]
        if not names and _is_method(made, "__call__"):
            names = ["__call__"]
        if not names:
            raise LoadError(f"the class {made.__name__} has no public method")
        self._class = made.__name__
        self._methods = {}
        for name in names:
            method = getattr(instance, name)
            self._methods[name] = (method, Signature(method))
        # A blocking method must not block the event loop of the others.
        self.is_async = all(is_async(method) for method, _signature in self._methods.values())

    def bind(self, value, context):
        """Returns (method, positional, by name) for one call. Raises InputError."""
        if not isinstance(value, dict):
            raise InputError("input must be an object")
        chosen = value.get("method")
        if len(self._methods) == 1:
            [(name, (method, signature))] = self._methods.items()
            # Stubs always set it; it may also be an argument of this name.
            if chosen != name or signature.takes("method"):
                return (method,) + signature.bind(value, context)
        if "method" not in value:
            raise InputError(f"missing argument: method (one of: {', '.join(self._methods)})")
        if not isinstance(chosen, str) or chosen not in self._methods:
            raise InputError(f"unknown method: {chosen} (the class {self._class} has: {', '.join(self._methods)})")
        method, signature = self._methods[chosen]
        return (method,) + signature.bind({key: each for key, each in value.items() if key != "method"}, context)


def choice_of(found):
    return Methods(found) if inspect.isclass(found) else Sole(found)


def is_async(fn):
    """True for a function whose call returns a coroutine or an asynchronous generator."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = getattr(fn, "__call__", fn)
    return inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)


def _make(made):
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):
        # Without a readable signature, the class itself reports missing arguments.
        return made()
    needed = [
        name
        for name, each in signature.parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if needed:
        raise LoadError(f"the class {made.__name__} must have no required constructor arguments; it has {', '.join(needed)}")
    return made()


def _is_method(made, name):
    raw = inspect.getattr_static(made, name, None)
    return isinstance(raw, (staticmethod, classmethod)) or inspect.isfunction(raw)
