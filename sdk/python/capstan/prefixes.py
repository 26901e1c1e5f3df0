"""
Tells a web application under which path callers reach it (``x-forwarded-prefix``), so that the links that it makes work.

WSGI has one convention (``SCRIPT_NAME``), and ASGI had two. Today ``path`` begins with ``root_path``: Starlette since
0.33 (FastAPI since 0.109), Litestar, Quart, Django and BlackSheep. Before that, ``path`` came without it, and such
applications find no route otherwise: Starlette below 0.33, every version of Falcon, and Socket.IO for its own path.
"""
from __future__ import annotations

import functools
import sys
from typing import Any, Iterator, List, Set, Tuple

#: In which the gateway names the path of the endpoint, such as ``/lb/<id>``.
_PREFIX = b"x-forwarded-prefix"
#: The first Starlette whose ``path`` begins with ``root_path``.
_STARLETTE = (0, 33)
#: Where a middleware or a wrapper keeps the application that it wraps.
_INNER = ("app", "asgi_app", "application", "other_asgi_app", "inner", "func", "__wrapped__", "__self__")
#: Wrappers within wrappers; people have fewer.
_MAX_WRAPPERS = 50


def below_prefix(app: Any) -> Any:
    """Returns an ASGI application that passes requests to ``app`` with the prefix, in the form that its framework reads."""
    is_apart = has_path_apart(app)
    own_path = getattr(app, "engineio_path", None)

    async def below(scope: Any, receive: Any, send: Any) -> None:
        prefix = next((value for name, value in scope.get("headers", ()) if name == _PREFIX), b"") if scope["type"] in ("http", "websocket") else b""
        if prefix:
            root_path, path = prefix.decode("latin-1"), scope["path"]
            scope = dict(scope, root_path=root_path)
            scope["headers"] = [header for header in scope["headers"] if header[0] != _PREFIX]
            is_own = isinstance(own_path, str) and (path + "/").startswith(own_path)
            if not is_apart and not is_own:
                scope["path"] = root_path + path
                scope["raw_path"] = prefix + (scope.get("raw_path") or path.encode("utf-8"))
        await app(scope, receive, send)

    return below


def below_script_name(app: Any) -> Any:
    """The same for a WSGI application."""

    def below(environ: Any, start_response: Any) -> Any:
        environ["SCRIPT_NAME"] = environ.pop("HTTP_X_FORWARDED_PREFIX", "")
        return app(environ, start_response)

    return below


def has_path_apart(app: Any) -> bool:
    """
    Returns whether an ASGI application finds its routes by ``path`` without ``root_path``. The innermost framework
    decides; for an application of none of them, the installed framework that it has imported.
    """
    found = None
    for each in _layers(app):
        frameworks = {kind.__module__.partition(".")[0] for kind in type(each).__mro__}
        if "falcon" in frameworks:
            found = True
        elif "starlette" in frameworks:
            # A root path of its own replaces the one that it is given.
            found = _is_old_starlette() or bool(each.__dict__.get("root_path"))
        elif frameworks & {"litestar", "quart", "django", "blacksheep"}:
            found = False
    if found is not None:
        return found
    return "falcon" in sys.modules or ("starlette" in sys.modules and _is_old_starlette())


def _layers(app: Any) -> Iterator[Any]:
    """Yields an application and those that it wraps, from the outermost: in attributes, or in a closure of a function."""
    waiting: List[Any] = [app]
    seen: Set[int] = set()
    while waiting and len(seen) < _MAX_WRAPPERS:
        each = waiting.pop()
        if id(each) in seen or not callable(each):
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, functools.partial):
            waiting.extend(each.args)
        waiting.extend(_contents(getattr(each, "__closure__", None) or ()))
        for name in _INNER:
            # Only its own attributes: a framework's class has methods and properties of these names.
            inner = getattr(each, name, None) if name in ("func", "__self__") else getattr(each, "__dict__", {}).get(name)
            if inner is not None:
                waiting.append(inner)


def _contents(cells: Tuple[Any, ...]) -> List[Any]:
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass  # not assigned yet
    return found


def _is_old_starlette() -> bool:
    version = str(getattr(sys.modules.get("starlette"), "__version__", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return bool(numbers) and numbers < _STARLETTE
