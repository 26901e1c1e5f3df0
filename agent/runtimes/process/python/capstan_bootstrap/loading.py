"""
Resolves a function of the manifest: finds the module in the build, imports it and selects the function or class.
"""
import importlib
import importlib.util
import inspect
import os
import sys

# Folder of the build with its bundled packages.
DEPENDENCIES = "python_packages"
ENDINGS = ("", ".py", "/__init__.py")
# A project of packages below `src` has one of these.
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
# Modules that print, open windows, or are not part of every installation.
NEVER_IMPORTED = {"__main__", "antigravity", "idlelib", "test", "this", "tkinter", "turtle", "turtledemo"}


class LoadError(Exception):
    """An error with a readable message."""


def prepare_path(root):
    """
    Sets the order of imports: the build, its packages below `src`, its bundled packages, the host's packages. Modules of
    the standard library precede those of the build that have their names: a project's email.py would end http.client.
    """
    folders = [root] + source_folders(root)
    import_standard(folders)
    brought = os.path.join(root, DEPENDENCIES)
    sys.path[0:0] = folders + [brought] if os.path.isdir(brought) else folders
    # The spare host was started before the build existed.
    importlib.invalidate_caches()


def source_folders(root):
    """Returns `src` of a project whose packages are below it."""
    folder = os.path.join(root, "src")
    is_project = any(os.path.isfile(os.path.join(root, name)) for name in PROJECT_FILES)
    return [folder] if is_project and os.path.isdir(folder) and not os.path.isfile(os.path.join(folder, "__init__.py")) else []


def import_standard(folders):
    """Imports the modules of the standard library whose names modules of these folders have."""
    names = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
    for folder in folders:
        for entry in os.listdir(folder):
            name = entry[: -len(".py")] if entry.endswith(".py") else entry
            if name not in names or name in NEVER_IMPORTED or name in sys.modules:
                continue
            if entry.endswith(".py") or os.path.isfile(os.path.join(folder, entry, "__init__.py")):
                try:
                    importlib.import_module(name)
                except ImportError:
                    pass  # not part of this installation: the name is free


def load_function(root, module, name):
    return pick_function(import_file(root, find_module(root, module)), module, name)


def find_module(root, module):
    """Returns the file of a module name: as given, with an extension, or with dots for slashes."""
    root = os.path.realpath(root)
    spellings = [module] if "/" in module else [module, module.replace(".", "/")]
    for spelling in spellings:
        for ending in ENDINGS:
            candidate = os.path.normpath(os.path.join(root, spelling + ending))
            if not candidate.startswith(root + os.sep) or not os.path.isfile(candidate):
                continue
            if not os.path.realpath(candidate).startswith(root + os.sep):
                raise LoadError(f"module {module} is outside the build")
            return candidate
    raise LoadError("module not found in the build: " + module)


def import_file(root, path):
    """Imports a file under its dotted name, so that its relative imports and its pickles work."""
    parts = os.path.relpath(path, import_root(os.path.realpath(root), path))[: -len(".py")].split(os.sep)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    name = ".".join(parts)
    if all(part.isidentifier() for part in parts):
        found = sys.modules.get(name) or importlib.import_module(name)
        if is_of_file(found, path):
            return found
    # Its name is taken (a queue.py beside the standard library's), or is not an identifier.
    name = "capstan_build_" + "_".join(parts)
    # All functions of a module share its state.
    if is_of_file(sys.modules.get(name), path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{os.path.basename(path)} is not a Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def is_of_file(module, path):
    return os.path.realpath(getattr(module, "__file__", None) or "") == os.path.realpath(path)


def import_root(root, path):
    """Returns the deepest folder of the build that imports start from and that has the file."""
    within = [each for each in map(os.path.realpath, sys.path) if (each + os.sep).startswith(root + os.sep)]
    return max((each for each in within if path.startswith(each + os.sep)), key=len, default=root)


def pick_function(module, module_name, name):
    found = getattr(module, name, None)
    if callable(found):
        return found
    own = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    ]
    has = "its functions: " + ", ".join(own) if own else "it exports no function"
    raise LoadError(f"module {module_name} has no function {name} ({has})")
