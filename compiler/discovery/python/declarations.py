"""Reads the declarations of a Python file, `Endpoint(name=…)`, and their functions, from its syntax tree."""
import ast

from imports import needed_imports
from literals import Literals, source_of
from read_function import description_of, read_plain
from sdk_names import SdkNames

ROUTES = ("get", "post", "put", "delete", "patch")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHIN = {
    "If": "if",
    "Try": "try",
    "TryStar": "try",
    "For": "for",
    "AsyncFor": "for",
    "While": "while",
    "With": "with",
    "AsyncWith": "with",
    "Match": "match",
    "FunctionDef": "a function",
    "AsyncFunctionDef": "a function",
    "ClassDef": "a class",
}


class FileReader:
    def __init__(self, path, tree, sources):
        self._path = path
        self._tree = tree
        self._scope = sources.scope(path, tree)
        self._names = SdkNames(tree)
        self._literals = Literals(tree, self._names)
        self._declarations = []
        # Variables that hold a declaration.
        self._held = {}
        # Calls that were read as declarations, and those that are not at the top level.
        self._read_calls = set()
        self._nested = []

    def read(self):
        for node in self._tree.body:
            self._read_statement(node)
        self._read_nested()
        return {
            "path": self._path,
            "declarations": self._declarations,
            "nested": self._nested,
            "imports": sorted(needed_imports(self._tree.body)),
            "functions": [
                {"name": each.name, "line": each.lineno}
                for each in self._tree.body
                if isinstance(each, FUNCTIONS + (ast.ClassDef,))
            ],
        }

    def _read_statement(self, node):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            call = self._declaring(node.value)
            if call is None:
                return
            declared = self._declare(call)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    self._held[target.id] = declared
        elif isinstance(node, ast.Expr):
            call = self._declaring(node.value)
            if call is not None:
                self._declare(call)
        elif isinstance(node, FUNCTIONS + (ast.ClassDef,)):
            for mark in node.decorator_list:
                self._read_decorator(mark, node)

    def _read_decorator(self, mark, node):
        call = self._declaring(mark)
        if call is not None:
            declared = self._declare(call)
            declared["functions"].append(self._function(node))
            return
        if isinstance(mark, ast.Name) and mark.id in self._held:
            declared = self._held[mark.id]
            declared["functions"].append(self._function(node))
            return
        if not (isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and isinstance(mark.func.value, ast.Name)):
            return
        declared = self._held.get(mark.func.value.id)
        if declared is None or mark.func.attr not in ROUTES:
            return
        row = self._function(node, True)
        row["method"] = mark.func.attr.upper()
        given = mark.args[0] if mark.args else next((each.value for each in mark.keywords if each.arg == "path"), None)
        row["path"] = self._literals.setting(given) if given is not None else {"line": mark.lineno, "value": None}
        declared["functions"].append(row)

    def _declaring(self, node):
        """Returns the call `Endpoint(…)` with `name=`; None for anything else, including handles by id."""
        if not isinstance(node, ast.Call) or not self._names.is_endpoint(node.func):
            return None
        keys = [each.arg for each in node.keywords]
        return node if not node.args and "id" not in keys else None

    def _read_nested(self):
        """Notes the declarations that a worker may make and the tool does not read, with the statement around them."""
        for statement in self._tree.body:
            for node in ast.walk(statement):
                if self._declaring(node) is not None and id(node) not in self._read_calls and any(each.arg == "name" for each in node.keywords):
                    self._nested.append({"line": node.lineno, "within": WITHIN.get(type(statement).__name__, "an expression")})

    def _declare(self, call):
        self._read_calls.add(id(call))
        declared = {"line": call.lineno, "settings": {}, "functions": []}
        for keyword in call.keywords:
            if keyword.arg is None:
                declared["settings"]["**"] = {"line": keyword.value.lineno, "problem": source_of(keyword.value)}
            else:
                read = self._literals.setting(keyword.value)
                # An application that the file itself holds is any expression; a worker takes it from the declaration.
                if keyword.arg == "app" and not isinstance(read.get("value", 0), (str, type(None))):
                    read = {"line": read["line"], "value": {"$held": True}}
                declared["settings"][keyword.arg] = read
        self._declarations.append(declared)
        return declared

    def _function(self, node, is_route=False):
        is_class = isinstance(node, ast.ClassDef)
        row = {"name": node.name, "line": node.lineno, "is_class": is_class, **description_of(node)}
        if is_class:
            row["methods"] = {name: described(each, self._scope) for name, each in methods_of(node).items()}
        else:
            row.update(described(node, self._scope, is_route))
        return row


def described(node, scope, is_route=False):
    is_generator = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_nodes(node))
    reading = read_plain(node, scope, is_route)
    return {
        "is_async": isinstance(node, ast.AsyncFunctionDef),
        "is_generator": is_generator,
        "style": reading["style"],
        "parameters": reading["parameters"],
    }


def own_nodes(function):
    """Yields the nodes of a function's body, without those of nested functions."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(each for each in ast.iter_child_nodes(node) if not isinstance(each, FUNCTIONS + (ast.ClassDef, ast.Lambda)))


def methods_of(node):
    """Returns public methods, without their first parameter; `__call__` if there are none."""
    found = {}
    for each in node.body:
        if isinstance(each, FUNCTIONS) and (not each.name.startswith("_") or each.name == "__call__"):
            marks = [mark.id for mark in each.decorator_list if isinstance(mark, ast.Name)]
            if "staticmethod" not in marks and each.args.args:
                each.args.args.pop(0)
            found[each.name] = each
    public = {name: each for name, each in found.items() if name != "__call__"}
    return public or found
