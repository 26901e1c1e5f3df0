"""
Parses Python files and prints their declarations (`Endpoint(name=…)`) as JSON; nothing is run.
Each line of standard input is a request, {"root": folder, "files": [path, …]}, and gets one line. Every value of a setting must be a literal.
"""
import ast
import enum
import importlib.util
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "signatures", "python"))
sys.dont_write_bytecode = True

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from module_names import Fault, check_standard_names, check_unicode_form, is_standard, source_roots, standard_names  # noqa: E402
from read_function import description_of, read_plain  # noqa: E402
from sources import Sources  # noqa: E402

PACKAGE = "capstan"


def load_former_names():
    """Returns the values of the SDK's former names: `{"GpuType": {"NVIDIA_L4": "NVIDIA L4"}}`. The SDK itself is not imported."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "sdk", "python", "capstan", "former_names.py")
    spec = importlib.util.spec_from_file_location("capstan_former_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        name: {member: each.value for member, each in kind.__members__.items()}
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and not name.startswith("_") and kind is not enum.Enum
    }


ROUTES = ("get", "post", "put", "delete", "patch")
# The SDK that sources come from; its names of values are read from either.
FORMER_PACKAGE = "runpod_flash"
FORMER_NAMES = load_former_names()
ENUMS = ("GpuGroup", "ScalerType") + tuple(FORMER_NAMES)
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


class NotLiteral(Exception):
    def __init__(self, node):
        super().__init__(ast.dump(node))
        self.node = node


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


def imported_files(root, roots, path, tree):
    """
    Yields the application's own files that a file imports, with the statement; not imports in a `try`, which may fail.
    """
    for base, name, node in imported_names(tree.body, os.path.dirname(path)):
        # An absolute import starts from any of the roots.
        for start in [base] if base is not None else [""] + roots:
            stem = os.path.join(start, *name.split(".")) if name else start
            found = [each for each in (stem + ".py", os.path.join(stem, "__init__.py")) if os.path.isfile(os.path.join(root, each))]
            for each in found:
                yield each, node
            if not found and name:
                check_unicode_form(node, os.path.join(root, os.path.dirname(stem)), os.path.basename(stem))


def imported_names(body, folder):
    """Yields (folder, dotted name, statement) of each module that statements may import; no folder for absolute names."""
    for node in body:
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield None, each.name, node
        elif isinstance(node, ast.ImportFrom):
            base = folder
            for _ in range(node.level - 1):
                base = os.path.dirname(base)
            base = base if node.level > 0 else None
            yield base, node.module or "", node
            for each in node.names:
                yield base, ".".join(part for part in (node.module, each.name) if part), node
        else:
            yield from imported_names([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)], folder)


class FileReader:
    def __init__(self, path, tree, sources):
        self._path = path
        self._tree = tree
        self._scope = sources.scope(path, tree)
        self._endpoint_names = set()
        self._enum_names = {}
        self._volume_names = set()
        self._secret_names = set()
        self._package_names = set()
        self._constants = {}
        self._declarations = []
        # Variables that hold a declaration.
        self._held = {}
        # Calls that were read as declarations, and those that are not at the top level.
        self._read_calls = set()
        self._nested = []

    def read(self):
        self._read_imports()
        for node in self._tree.body:
            self._read_constant(node)
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

    def _read_imports(self):
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    if each.name == PACKAGE:
                        self._package_names.add(each.asname or each.name)
            elif isinstance(node, ast.ImportFrom) and node.module in (PACKAGE, FORMER_PACKAGE) and node.level == 0:
                for each in node.names:
                    if each.name == "Endpoint" and node.module == PACKAGE:
                        self._endpoint_names.add(each.asname or each.name)
                    elif each.name == "NetworkVolume":
                        self._volume_names.add(each.asname or each.name)
                    elif each.name == "Secret" and node.module == PACKAGE:
                        self._secret_names.add(each.asname or each.name)
                    elif each.name in ENUMS:
                        self._enum_names[each.asname or each.name] = each.name

    def _read_constant(self, node):
        """Reads `NAME = literal` at module level, unless it is assigned more than once."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
        for target in targets:
            if isinstance(target, ast.Name):
                known = target.id in self._constants
                self._constants[target.id] = None if known or isinstance(node, ast.AugAssign) else node.value

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
        row["path"] = self._setting(given) if given is not None else {"line": mark.lineno, "value": None}
        declared["functions"].append(row)

    def _declaring(self, node):
        """Returns the call `Endpoint(…)` with `name=`; None for anything else, including handles by id."""
        if not isinstance(node, ast.Call):
            return None
        named = isinstance(node.func, ast.Name) and node.func.id in self._endpoint_names
        dotted = (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "Endpoint"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in self._package_names
        )
        if not named and not dotted:
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
                read = self._setting(keyword.value)
                # An application that the file itself holds is any expression; a worker takes it from the declaration.
                if keyword.arg == "app" and not isinstance(read.get("value", 0), (str, type(None))):
                    read = {"line": read["line"], "value": {"$held": True}}
                declared["settings"][keyword.arg] = read
        self._declarations.append(declared)
        return declared

    def _setting(self, node):
        try:
            return {"line": node.lineno, "value": self._literal(node)}
        except NotLiteral as error:
            return {"line": error.node.lineno, "problem": source_of(error.node)}

    def _literal(self, node, depth=0):
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float, bool))):
            return node.value
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self._literal(each, depth) for each in node.elts]
        if isinstance(node, ast.Dict):
            if any(key is None for key in node.keys):
                raise NotLiteral(node)
            return {str(self._literal(key, depth)): self._literal(value, depth) for key, value in zip(node.keys, node.values)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._literal(node.operand, depth)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return -value
        if isinstance(node, ast.Attribute) and self._is_enum(node.value):
            return self._member(node)
        if isinstance(node, ast.Name) and depth < 20 and self._constants.get(node.id) is not None:
            return self._literal(self._constants[node.id], depth + 1)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._volume_names:
            given = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "name"), node)
            if given is not node:
                return self._literal(given, depth)
        if isinstance(node, ast.Call) and self._is_secret(node.func) and len(node.args) == 1 and not node.keywords:
            name = self._literal(node.args[0], depth)
            if isinstance(name, str):
                return f"{{{{ CAPSTAN_SECRET_{name} }}}}"
        variable = variable_of(node)
        if variable is not None:
            name, default = variable
            return {"$variable": name, "default": None if default is None else self._literal(default, depth)}
        raise NotLiteral(node)

    def _member(self, node):
        """Returns the value of a member: names of former values are not the values."""
        name = self._enum_names[node.value.id] if isinstance(node.value, ast.Name) else node.value.attr
        members = FORMER_NAMES.get(name)
        if members is not None and node.attr not in members:
            raise NotLiteral(node)
        return node.attr if members is None else members[node.attr]

    def _is_secret(self, node):
        if isinstance(node, ast.Name):
            return node.id in self._secret_names
        is_of_package = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._package_names
        return is_of_package and node.attr == "Secret"

    def _is_enum(self, node):
        if isinstance(node, ast.Name):
            return node.id in self._enum_names
        return (
            isinstance(node, ast.Attribute)
            and node.attr in ENUMS
            and isinstance(node.value, ast.Name)
            and node.value.id in self._package_names
        )

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


def variable_of(node):
    """Returns (name, default) of `os.environ["NAME"]`, `os.environ.get("NAME", default)` and `os.getenv(…)`."""
    if isinstance(node, ast.Subscript) and is_environ(node.value):
        key = node.slice.value if type(node.slice).__name__ == "Index" else node.slice
        return (key.value, None) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not 1 <= len(node.args) <= 2:
        return None
    gets = node.func.attr == "get" and is_environ(node.func.value)
    getenv = node.func.attr == "getenv" and isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
    key = node.args[0]
    if not (gets or getenv) or not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return None
    return key.value, node.args[1] if len(node.args) == 2 else ast.Constant(value="", lineno=node.lineno, col_offset=0)


def is_environ(node):
    return isinstance(node, ast.Attribute) and node.attr == "environ" and isinstance(node.value, ast.Name) and node.value.id == "os"


def needed_imports(body):
    """Yields top-level names of the modules that a file imports, except those in a `try`, which may be missing."""
    for node in body:
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]
        else:
            yield from needed_imports([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def foreign_modules(root, roots, tree):
    """Yields (top-level name, line) of imports that neither the project nor the standard library gives."""
    for name, line in surely_imported(tree.body):
        own = any(os.path.exists(os.path.join(root, start, name + ending)) for start in [""] + roots for ending in ("", ".py"))
        if not own and name not in (PACKAGE, FORMER_PACKAGE, "__future__") and not is_standard(name):
            yield name, line


def surely_imported(body):
    """Imports in a `try`, in `with suppress(…)` or for type checkers may be missing, and so may those in a condition on the system."""
    for node in body:
        if isinstance(node, ast.Try) or (isinstance(node, ast.With) and "suppress" in ast.dump(node.items[0])):
            continue
        if isinstance(node, ast.If) and any(each in ast.dump(node.test) for each in ("TYPE_CHECKING", "platform", "version_info", "find_spec")):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], node.lineno
        else:
            yield from surely_imported([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def source_of(node):
    unparse = getattr(ast, "unparse", None)
    text = unparse(node) if unparse is not None else type(node).__name__
    return text if len(text) <= 80 else text[:79] + "…"


for request in sys.stdin:
    sys.stdout.write(json.dumps(main(json.loads(request))) + "\n")
    sys.stdout.flush()
