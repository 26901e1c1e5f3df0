"""
Parses Python files and prints their declarations (`Endpoint(name=…)`) as JSON; nothing is run.
Each line of standard input is a request, {"root": folder, "files": [path, …]}, and gets one line. Every value of a setting must be a literal.
"""
import ast
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "signatures", "python"))
sys.dont_write_bytecode = True

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from declarations import FileReader  # noqa: E402
from imports import foreign_modules, imported_files, needed_imports  # noqa: E402
from module_names import Fault, check_standard_names, source_roots, standard_names  # noqa: E402
from sources import Sources  # noqa: E402


def main(order):
    root = order["root"]
    files = []
    sources = Sources(root)
    # With a written manifest: modules of its functions.
    reached = list(order["files"]) + order.get("modules", [])
    roots = source_roots(root)
    taken = standard_names([root] + [os.path.join(root, each) for each in roots])
    # Who imports a file, for messages.
    imported = []
    # Modules that the project itself lacks, and where each is first imported.
    needed = {}
    # Parses imported files, too, so that a syntax error in them is reported before a worker runs.
    for path in reached:
        tree, syntax = parse(root, path)
        if syntax is not None:
            files.append({"path": path, "syntax": syntax})
            continue
        if path in order["files"]:
            read = FileReader(path, tree, sources).read()
            for each in read["declarations"]:
                find_app(root, roots, each, reached)
                for script, name, line in of_scripts(root, roots, each["settings"].get("command", {}).get("value")):
                    needed.setdefault(name, {"name": name, "by": script, "line": line})
            files.append(read)
        for name, line in foreign_modules(root, roots, tree):
            needed.setdefault(name, {"name": name, "by": path, "line": line})
        try:
            check_standard_names(tree, taken)
            for each, node in imported_files(root, roots, path, tree):
                imported.append({"path": each, "by": path, "line": node.lineno, "column": node.col_offset + 1})
                if each not in reached:
                    reached.append(each)
        except Fault as fault:
            files.append({"path": path, "fault": {"line": fault.line, "column": fault.column, "message": str(fault)}})
    for command in order.get("commands", []):
        for script, name, line in of_scripts(root, roots, command):
            needed.setdefault(name, {"name": name, "by": script, "line": line})
    # The file of an application is parsed by now, and has its own imports.
    for declared in (each for read in files for each in read.get("declarations", [])):
        if declared.get("app_file") is not None:
            tree, _ = parse(root, declared["app_file"])
            declared["app_imports"] = [] if tree is None else sorted(needed_imports(tree.body))
    return {
        "version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "files": files,
        "roots": roots,
        "taken": {name: os.path.relpath(path, root) for name, path in taken.items()},
        "imported": imported,
        "needed": list(needed.values()),
    }


def find_app(root, roots, declared, reached):
    """Notes the file of `app="module:name"`, if the folder has it, so that it is parsed, too."""
    given = declared["settings"].get("app", {}).get("value")
    if not isinstance(given, str):
        return
    stem = given.split(":")[0].replace(".", "/")
    for path in (os.path.join(start, stem + ending) for start in [""] + roots for ending in (".py", "/__init__.py")):
        if os.path.isfile(os.path.join(root, path)):
            declared["app_file"] = path
            if path not in reached:
                reached.append(path)
            return


def of_scripts(root, roots, command):
    """Yields (script, top-level name, line) of what scripts of a command import, which find what is beside them, too."""
    for path in command if isinstance(command, list) else []:
        if isinstance(path, str) and path.endswith(".py") and path[0] not in "-$/" and os.path.isfile(os.path.join(root, path)):
            tree, _ = parse(root, path)
            # What it cannot read may be for another Python.
            for name, line in [] if tree is None else foreign_modules(root, roots + [os.path.dirname(path)], tree):
                yield path, name, line


def parse(root, path):
    try:
        with open(os.path.join(root, path), "rb") as source:
            return ast.parse(source.read(), path), None
    except SyntaxError as error:
        return None, {"line": error.lineno or 1, "column": error.offset or 1, "message": error.msg}
    except ValueError as error:
        return None, {"line": 1, "column": 1, "message": str(error)}


for request in sys.stdin:
    sys.stdout.write(json.dumps(main(json.loads(request))) + "\n")
    sys.stdout.flush()
