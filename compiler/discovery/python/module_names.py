"""
How a project's own modules are named: the folders that imports start from, and modules whose names are taken by Python's
standard library. Workers give the standard library precedence, as most of its modules are loaded before the project's.
"""
import ast
import contextlib
import importlib
import importlib.machinery
import io
import os
import sys
import sysconfig
import unicodedata

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
#: Modules that print, open windows, or are not part of every installation.
NEVER_IMPORTED = {"__main__", "antigravity", "idlelib", "test", "this", "tkinter", "turtle", "turtledemo"}


class Fault(Exception):
    """A statement that cannot work in a worker."""

    def __init__(self, node, message):
        super().__init__(message)
        self.line = node.lineno
        self.column = node.col_offset + 1


def source_roots(root):
    """Returns the folders besides the project's own that its modules are imported from (src layout), relative to it."""
    if not any(os.path.isfile(os.path.join(root, name)) for name in PROJECT_FILES):
        return []
    found = ["src"] + named_roots(read_toml(os.path.join(root, "pyproject.toml")))
    clean = [os.path.normpath(each) for each in found]
    inside = [each for each in clean if each != "." and not each.startswith("..") and not os.path.isabs(each)]
    return [
        each
        for index, each in enumerate(inside)
        if inside.index(each) == index
        and os.path.isdir(os.path.join(root, each))
        and not os.path.isfile(os.path.join(root, each, "__init__.py"))
    ]


def named_roots(content):
    """Yields what build backends call the folder of packages."""
    tool = table(content, "tool")
    setuptools = table(tool, "setuptools")
    found = [table(setuptools, "package-dir").get("")]
    where = table(table(setuptools, "packages"), "find").get("where")
    found += where if isinstance(where, list) else []
    packages = table(tool, "poetry").get("packages")
    found += [each.get("from") for each in packages if isinstance(each, dict)] if isinstance(packages, list) else []
    found.append(table(table(tool, "uv"), "build-backend").get("module-root"))
    found.append(table(table(tool, "pdm"), "build").get("package-dir"))
    wheel = table(table(table(table(tool, "hatch"), "build"), "targets"), "wheel").get("packages")
    found += [os.path.dirname(each) for each in wheel if isinstance(each, str)] if isinstance(wheel, list) else []
    return [each for each in found if isinstance(each, str) and each != ""]


def table(content, key):
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def read_toml(path):
    """Returns an empty table for a file that is missing or no TOML: the installation of packages reports it."""
    try:
        import tomllib
    except ImportError:
        return {}
    try:
        with open(path, "rb") as file:
            text = file.read()
        encoding = "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return tomllib.loads(text.decode(encoding))
    except (OSError, ValueError):
        return {}


def standard_names(folders):
    """Returns the top-level modules of folders that have the name of a standard module: name → path."""
    found = {}
    for folder in folders:
        for entry in sorted(os.listdir(folder)):
            path = os.path.join(folder, entry)
            if entry.endswith(".py"):
                name = entry[: -len(".py")]
            else:
                name, path = entry, os.path.join(path, "__init__.py")
            if os.path.isfile(path) and name not in NEVER_IMPORTED and is_standard(name):
                found.setdefault(name, path)
    return found


def is_standard(name):
    if name in sys.builtin_module_names:
        return True
    names = getattr(sys, "stdlib_module_names", None)
    if names is not None:
        return name in names
    folder = sysconfig.get_paths()["stdlib"]
    return name.isidentifier() and importlib.machinery.PathFinder.find_spec(name, [folder, os.path.join(folder, "lib-dynload")]) is not None


def check_standard_names(tree, taken):
    """Raises Fault for an import that means a module of the project and gets that of the standard library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in taken:
            own = own_names(taken[node.module])
            for each in node.names:
                if each.name == "*" or (each.name in own and each.name not in names_of_standard(node.module)):
                    raise taken_fault(node, node.module, taken)
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.name in taken:
                    check_attributes(tree, each.asname or each.name, each.name, taken)


def check_attributes(tree, local, name, taken):
    missing = own_names(taken[name]) - names_of_standard(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == local and node.attr in missing:
            raise taken_fault(node, name, taken)


def taken_fault(node, name, taken):
    return Fault(node, "%s is a module of Python's standard library, which workers import instead of %s; rename the file" % (name, os.path.basename(taken[name])))


def own_names(path):
    """Returns the names that a file defines at its top level."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, ValueError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def names_of_standard(name):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return set(dir(importlib.import_module(name)))
    except Exception:
        return set()


def check_unicode_form(node, folder, name):
    """Raises Fault when a folder has a module of this name in another Unicode form: Python imports the composed form."""
    if name.isascii() or not os.path.isdir(folder):
        return
    composed = unicodedata.normalize("NFKC", name)
    for entry in os.listdir(folder):
        stem = entry[: -len(".py")] if entry.endswith(".py") else entry
        if stem != composed and unicodedata.normalize("NFKC", stem) == composed:
            raise Fault(node, "Python imports %s in another Unicode form than the name of the file; rename the file" % name)
