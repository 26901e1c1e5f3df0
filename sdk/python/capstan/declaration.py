"""Declares endpoints: ``Endpoint(name=…)`` as a decorator, or its routes."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, TypeVar

from . import dispatch, http_sync, worker
from .client import EndpointClient
from .errors import DeclarationError
from .functions import FunctionDeclaration, describe
from .remote import stub_of
from .routes import path_violation, path_parameters, same_route
from .settings import Parameters, Settings, check_settings

if TYPE_CHECKING:
    # Type checkers know it; Python 3.8 does not.
    from typing_extensions import Unpack

Target = TypeVar("Target", bound=Callable[..., Any])


class Declaration:
    """
    An endpoint that the CLI deploys. As a decorator of one function or class it is queue-based; with ``get``, ``post``,
    ``put``, ``delete`` and ``patch`` load-balanced; with neither, it runs ``image``: for jobs, or with
    ``load_balanced`` for requests. ``app`` serves a web application, and ``command`` runs a program that listens on
    ``$PORT``.

    A decorated function or class stays unchanged, except for the attribute ``__capstan__``. Only in a worker of another
    endpoint is it replaced by a stub, whose calls go to the endpoint's own workers.
    """

    def __init__(self, *, _caller: int = 0, **settings: Unpack[Parameters]) -> None:
        """
        ``workers`` is a maximum or (minimum, maximum), ``idle_timeout`` is in seconds, ``execution_timeout_ms`` 0 means
        the service's default; ``_caller`` counts the frames between this call and the user's code. Raises
        DeclarationError, naming the parameter and the rule.
        """
        self.settings: Settings = check_settings(settings)
        #: The functions that it serves, in the order of declaration.
        self.functions: List[FunctionDeclaration] = []
        caller = sys._getframe(1 + _caller)
        #: File as Python names it, and the line of the declaration.
        self.file: str = caller.f_code.co_filename
        self.line: int = caller.f_lineno

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_load_balanced(self) -> bool:
        return self.settings.load_balanced or any(each.http_method is not None for each in self.functions)

    @property
    def routes(self) -> Dict[str, str]:
        """``<METHOD> <path>`` → function name."""
        return {f"{each.http_method} {each.http_path}": each.name for each in self.functions if each.http_method is not None}

    def resource(self) -> Dict[str, Any]:
        """
        Returns the entry under ``resources`` of the manifest; its functions lack their modules, which the build adds.
        """
        entry = self.settings.resource()
        if self.is_load_balanced:
            entry["is_load_balanced"] = True
        rows: Dict[str, Dict[str, Any]] = {}
        for each in self.functions:
            # A function may serve several routes.
            rows.setdefault(each.name, each.row())
        entry["functions"] = list(rows.values())
        return entry

    def run_sync(self, input: Any) -> Any:
        """
        In a worker of another endpoint: runs a job at this endpoint, found by its name, and returns the result. For an
        image that serves by itself; functions have stubs. :func:`capstan.aio.run_sync` is the same for asyncio. Raises
        RemoteError with the job's error, DispatchError, ApiError, ConnectionFailed.
        """
        return http_sync.run(dispatch.run_at(self.name, input))

    runsync = run_sync

    def deployed(self) -> EndpointClient:
        """
        Returns the handle of this endpoint as deployed in the worker's environment. Raises DispatchError, ApiError,
        ConnectionFailed.
        """
        connection, peer = http_sync.run(dispatch.find_queue(self.name))
        return EndpointClient(peer.id, api_key=connection.api_key, base_url=connection.base_url)

    def url(self) -> str:
        """
        Returns the URL for requests or jobs in the worker's environment; the key is ``CAPSTAN_WORKER_TOKEN``. Raises
        DispatchError, ApiError, ConnectionFailed.
        """
        return http_sync.run(dispatch.find(self.name))[1].url

    def __call__(self, target: Target) -> Target:
        """Sets the function or class that this endpoint runs."""
        self._must_serve_functions()
        declared = describe(target, self)
        if self.settings.load_balanced and not self.functions:
            raise DeclarationError(f"endpoint {self.name}: is load-balanced; bind functions to routes with get, post and so on")
        if self.functions:
            first = self.functions[0]
            what = "already has routes, and is load-balanced" if self.is_load_balanced else f"already serves {first.name}"
            raise DeclarationError(
                f"endpoint {self.name}: {what} ({first.place}); a queue-based endpoint must have exactly one function"
            )
        return self._take(target, declared)

    def get(self, path: str) -> Callable[[Target], Target]:
        """Binds GET requests of a path to a function. Path parameters are written ``{name}``."""
        return self._route("GET", path)

    def post(self, path: str) -> Callable[[Target], Target]:
        """As :meth:`get`, for POST; the keys of the JSON body are the function's arguments."""
        return self._route("POST", path)

    def put(self, path: str) -> Callable[[Target], Target]:
        """As :meth:`post`, for PUT."""
        return self._route("PUT", path)

    def delete(self, path: str) -> Callable[[Target], Target]:
        """As :meth:`get`, for DELETE."""
        return self._route("DELETE", path)

    def patch(self, path: str) -> Callable[[Target], Target]:
        """As :meth:`post`, for PATCH."""
        return self._route("PATCH", path)

    def _route(self, method: str, path: str) -> Callable[[Target], Target]:
        self._must_serve_functions()
        violation = path_violation(path)
        if violation is not None:
            raise DeclarationError(f"endpoint {self.name}: the path {path!r} {violation}")
        if self.functions and self.functions[0].http_method is None:
            raise DeclarationError(
                f"endpoint {self.name}: already serves {self.functions[0].name} ({self.functions[0].place}) as a queue-based endpoint and cannot have routes"
            )

        def bind(target: Target) -> Target:
            declared = describe(target, self, method, path)
            for each in self.functions:
                if each.http_method == method and same_route(each.http_path or "") == same_route(path):
                    raise DeclarationError(f"endpoint {self.name}: {method} {path} is already bound to {each.name} ({each.place})")
                if each.name == declared.name and each.place != declared.place:
                    raise DeclarationError(
                        f"endpoint {self.name}: the function {each.name} is defined twice: at {each.place} and at {declared.place}"
                    )
            accepted = declared.shape.parameters
            for parameter in path_parameters(path):
                if accepted is not None and parameter not in accepted and "request" not in accepted:
                    raise DeclarationError(f"endpoint {self.name}: the function must have the parameter {parameter} of {method} {path}")
            return self._take(target, declared)

        return bind

    def _must_serve_functions(self) -> None:
        what = "serves an app" if self.settings.app is not None else "runs a command" if self.settings.command else None
        if what is not None:
            raise DeclarationError(f"endpoint {self.name}: {what}, which handles every path itself, and cannot have functions")

    def _take(self, target: Target, declared: FunctionDeclaration) -> Target:
        self.functions.append(declared)
        if worker.is_foreign(self.name):
            return stub_of(declared)  # type: ignore[return-value]
        target.__capstan__ = declared  # type: ignore[attr-defined]
        return target

    def __repr__(self) -> str:
        return f"<Endpoint {self.name}, declared at {self.place}>"
