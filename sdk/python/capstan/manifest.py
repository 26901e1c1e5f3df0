"""Maps functions to endpoints: the manifest of the build that this worker runs."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Optional, Tuple

from . import worker
from .errors import DispatchError

NAME = "tool_manifest.json"


class Manifest:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._registry: Mapping[str, Any] = document.get("function_registry") or {}
        self._resources: Mapping[str, Any] = document.get("resources") or {}
        self._routes: Mapping[str, Any] = document.get("routes") or {}

    def endpoint_of(self, function: str) -> str:
        """Returns the name of the endpoint that serves a function. Raises DispatchError."""
        registered = self._registry.get(function)
        if isinstance(registered, str):
            return registered
        for name, resource in self._resources.items():
            if any(row.get("name") == function for row in resource.get("functions") or ()):
                return str(name)
        raise DispatchError(f"no endpoint of this build has the function {function}")

    def route_of(self, endpoint: str, function: str) -> Tuple[str, str]:
        """Returns method and path that a load-balanced endpoint bound to a function. Raises DispatchError."""
        for route, name in (self._routes.get(endpoint) or {}).items():
            method, _, path = str(route).partition(" ")
            if name == function:
                return method, path
        raise DispatchError(f"the endpoint {endpoint} has no route for the function {function}")


_read: Dict[str, Manifest] = {}


def own_manifest(folder: Optional[str] = None) -> Manifest:
    """Returns the manifest in the build's folder, read once. Raises DispatchError when there is none."""
    path = os.path.join(folder or worker.START_FOLDER, NAME)
    known = _read.get(path)
    if known is not None:
        return known
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise DispatchError(f"cannot read the build's {NAME}: {error}") from error
    if not isinstance(document, dict):
        raise DispatchError(f"the build's {NAME} is not an object")
    found = _read[path] = Manifest(document)
    return found
