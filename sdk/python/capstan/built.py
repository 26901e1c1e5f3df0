"""
Loads the handler files of a build: the endpoint's own file unchanged, and stubs instead of the files of other
endpoints.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Mapping, Optional, Sequence

from . import registry, worker


#: Modules that print, open windows, or are not part of every installation.
_NEVER_IMPORTED = {"__main__", "antigravity", "idlelib", "test", "this", "tkinter", "turtle", "turtledemo"}


class _StandIns(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str, stubs: Mapping[str, str]) -> None:
        self._folder = folder
        self._stubs = stubs

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        file = self._stubs.get(fullname)
        return None if file is None else importlib.util.spec_from_file_location(fullname, os.path.join(self._folder, file))


def stand_in(folder: str, stubs: Mapping[str, str]) -> None:
    """Makes later imports of the given modules load their stubs, files of ``folder``."""
    sys.meta_path.insert(0, _StandIns(folder, stubs))


def order_imports(root: str, roots: Sequence[str]) -> None:
    """
    Makes imports start from the build and from ``roots``, folders in it (src layout). Modules of the standard library
    precede those of the build that have their names.
    """
    folders = [root, *(os.path.join(root, *each.split("/")) for each in roots)]
    _import_standard(folders)
    sys.path[:] = folders + [each for each in sys.path if each not in folders]
    importlib.invalidate_caches()


def _import_standard(folders: Sequence[str]) -> None:
    names = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
    for folder in folders:
        for entry in os.listdir(folder):
            name = entry[: -len(".py")] if entry.endswith(".py") else entry
            if name not in names or name in _NEVER_IMPORTED or name in sys.modules:
                continue
            if entry.endswith(".py") or os.path.isfile(os.path.join(folder, entry, "__init__.py")):
                try:
                    importlib.import_module(name)
                except ImportError:
                    pass  # not part of this installation: the name is free


def _import_root(root: str, path: str) -> str:
    """Returns the deepest folder of the build that imports start from and that has the file."""
    within = [each for each in sys.path if (each + os.sep).startswith(root + os.sep) and path.startswith(each + os.sep)]
    return max(within, key=len, default=root)


def load_file(root: str, file: str) -> ModuleType:
    """Imports a file of the build under its dotted name, so that its relative imports and its pickles work."""
    path = os.path.join(root, *file.split("/"))
    parts = os.path.relpath(path, _import_root(root, path))[: -len(".py")].split(os.sep)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    name = ".".join(parts)
    if all(part.isidentifier() for part in parts) and name not in sys.modules:
        found = importlib.import_module(name)
        if os.path.realpath(getattr(found, "__file__", None) or "") == os.path.realpath(path):
            return found
    # Its name is taken (a queue.py beside the standard library's), or is not an identifier.
    return _load_as(f"capstan_file_{'_'.join(parts)}", path)


def declared_app(root: str, file: str, endpoint: str) -> Any:
    """Returns the application that a declaration in a file of the build holds."""
    load_file(root, file)
    for each in registry.declarations():
        if each.name == endpoint:
            return each.settings.app
    raise ImportError(f"{file} did not declare the endpoint {endpoint} when it ran")


def app_of(root: str, file: str, name: str) -> Any:
    """Returns an application of a file of the build: ``app``, ``web.app`` or ``create_app()``."""
    found: Any = load_file(root, file)
    for part in name.replace("()", "").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ImportError(f"{file} has no {name}") from None
    return found() if name.endswith("()") else found


def from_file(file: str, name: str) -> Any:
    """
    Returns a name of another endpoint's file that is not a function of an endpoint; loads the file itself for it.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    own = f"capstan_file_{file[:-len('.py')].replace('/', '_')}"
    module = sys.modules.get(own) or _load_as(own, os.path.join(worker.START_FOLDER, *file.split("/")))
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"{file} has no {name}") from None


def _load_as(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{os.path.basename(path)} is not a Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return made
