"""The declarations of this process, in order, for the build and the development server."""
from __future__ import annotations

import threading
from typing import Dict, Iterable, List, Tuple

from .declaration import Declaration
from .errors import DeclarationError

_declared: Dict[Tuple[str, str, int], Declaration] = {}
_lock = threading.Lock()


def add(declaration: Declaration) -> None:
    """Adds a declaration. A reloaded file repeats its declarations: the newer one replaces the earlier."""
    with _lock:
        _declared.pop((declaration.name, declaration.file, declaration.line), None)
        _declared[(declaration.name, declaration.file, declaration.line)] = declaration


def declarations() -> List[Declaration]:
    """Returns every endpoint declared by ``Endpoint(name=…)``, without handles."""
    with _lock:
        return list(_declared.values())


def forget(file: str) -> None:
    """Drops the declarations of a file, before it is reloaded with other lines."""
    with _lock:
        for key in [key for key in _declared if key[1] == file]:
            del _declared[key]


def check_application(declared: Iterable[Declaration]) -> None:
    """
    Checks the rules over all declarations of an application: names of endpoints and of functions are unique. Raises
    DeclarationError with both places.
    """
    endpoints: Dict[str, Declaration] = {}
    functions: Dict[str, str] = {}
    for each in declared:
        other = endpoints.setdefault(each.name, each)
        if other is not each:
            raise DeclarationError(f"the endpoint {each.name} is declared twice: at {other.place} and at {each.place}")
        for function in each.functions:
            place = functions.setdefault(function.name, function.place)
            if place != function.place:
                raise DeclarationError(
                    f"the function {function.name} is defined twice: at {place} and at {function.place}; names must be unique in an application"
                )
