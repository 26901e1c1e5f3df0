"""
Serves a web application in a worker: ASGI with uvicorn, WSGI with waitress. The build adds these packages where the
project has none.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
import signal
import sys
import traceback
from typing import Any, Callable

from . import own_files, prefixes

#: Time for requests that are open when the worker is told to end, seconds: the agent kills it 2 s later.
_GRACE_S = 8
#: Most threads of a WSGI server: a request takes one until it is over.
_MAX_THREADS = 64


def serve(load: Callable[[], Any]) -> None:
    """Serves the application on ``PORT`` until SIGTERM. Exits with 1 when it does not load or cannot be served."""
    try:
        _own_files()
        app = load()
        interface = interface_of(app)
    except Exception as error:
        _print_error(error)
        sys.exit(1)
    host, port = os.environ.get("CAPSTAN_HOST") or "127.0.0.1", int(os.environ["PORT"])
    if interface == "wsgi":
        _serve_wsgi(app, host, port)
    else:
        _serve_asgi(app, interface, host, port)


def _own_files() -> None:
    build = os.environ.get("CAPSTAN_BUILD") or ""
    # Without a working folder of its own the worker runs in the build itself.
    if build and not os.path.samefile(build, os.getcwd()):
        own_files.own_files(os.getcwd(), os.path.realpath(build), "CAPSTAN_DEBUG_SOCKET" in os.environ)


def interface_of(app: Any) -> str:
    """Returns ``asgi3``, ``asgi2`` or ``wsgi``. Raises TypeError for anything else."""
    while isinstance(app, functools.partial):
        app = app.func
    if inspect.isclass(app):
        return "asgi2"
    if not callable(app):
        raise TypeError(f"app must be an ASGI or WSGI application, not {type(app).__name__}")
    target = app if inspect.isroutine(app) else type(app).__call__
    if inspect.iscoroutinefunction(target):
        return "asgi3"
    count = _parameters(app)
    if count == 2:
        return "wsgi"
    if count in (1, 3):
        return "asgi2" if count == 1 else "asgi3"
    raise TypeError(
        f"app must be an ASGI or WSGI application; {type(app).__name__} takes {count} arguments (a function that makes one: \"module:name()\")"
    )


def _print_error(error: Exception) -> None:
    """Prints a traceback of the application's own lines."""
    others = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(importlib.__file__), os.path.abspath(sys.argv[0]), "<frozen")
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(others)]
    # Without marks below the lines: the last lines of this output are the reason of a failed start.
    lines = traceback.format_list([(each.filename, each.lineno or 0, each.name, each.line) for each in frames])
    print("Traceback (most recent call last):", file=sys.stderr)
    print("".join(lines) + "".join(traceback.format_exception_only(type(error), error)), end="", file=sys.stderr, flush=True)


def _parameters(app: Any) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [each for each in inspect.signature(app).parameters.values() if each.kind in kinds]
    return len([each for each in given if each.default is inspect.Parameter.empty])


def _serve_asgi(app: Any, interface: str, host: str, port: int) -> None:
    uvicorn = _server("uvicorn")
    config = uvicorn.Config(
        prefixes.below_prefix(app) if interface == "asgi3" else app,
        host=host,
        port=port,
        interface=interface,
        # The gateway counts requests, and the agent's checks would fill the log.
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        sys.exit(3)


def _serve_wsgi(app: Any, host: str, port: int) -> None:
    waitress = _server("waitress")
    logging.basicConfig()
    threads = min(int(os.environ.get("CAPSTAN_MAX_CONCURRENCY") or 4), _MAX_THREADS)
    server = waitress.create_server(prefixes.below_script_name(app), host=host, port=port, threads=max(threads, 1), ident="")

    def end(_number: int, _frame: Any) -> None:
        # The server ends its threads on this exception.
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    server.run()


def _server(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"{name}, which serves this application, cannot be imported: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
