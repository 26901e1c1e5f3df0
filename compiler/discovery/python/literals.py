"""
Evaluates an expression of a source without running it: literals, constants of the same file, members of the SDK's enums, secrets and
variables of the environment.
"""
import ast

from sdk_names import FORMER_NAMES


class NotLiteral(Exception):
    def __init__(self, node):
        super().__init__(ast.dump(node))
        self.node = node


class Literals:
    """The values of one file's expressions."""

    def __init__(self, tree, names):
        self._names = names
        self._constants = {}
        for node in tree.body:
            self._read_constant(node)

    def _read_constant(self, node):
        """Reads `NAME = literal` at module level, unless it is assigned more than once."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
        for target in targets:
            if isinstance(target, ast.Name):
                known = target.id in self._constants
                self._constants[target.id] = None if known or isinstance(node, ast.AugAssign) else node.value

    def setting(self, node):
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
        enum = self._names.enum_of(node.value) if isinstance(node, ast.Attribute) else None
        if enum is not None:
            return member(enum, node)
        if isinstance(node, ast.Name) and depth < 20 and self._constants.get(node.id) is not None:
            return self._literal(self._constants[node.id], depth + 1)
        if isinstance(node, ast.Call) and self._names.is_volume(node.func):
            given = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "name"), node)
            if given is not node:
                return self._literal(given, depth)
        if isinstance(node, ast.Call) and self._names.is_secret(node.func) and len(node.args) == 1 and not node.keywords:
            name = self._literal(node.args[0], depth)
            if isinstance(name, str):
                return f"{{{{ CAPSTAN_SECRET_{name} }}}}"
        variable = variable_of(node)
        if variable is not None:
            name, default = variable
            return {"$variable": name, "default": None if default is None else self._literal(default, depth)}
        raise NotLiteral(node)


def member(enum, node):
    """Returns the value of an enum's member: names of former values are not the values."""
    members = FORMER_NAMES.get(enum)
    if members is not None and node.attr not in members:
        raise NotLiteral(node)
    return node.attr if members is None else members[node.attr]


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


def source_of(node):
    unparse = getattr(ast, "unparse", None)
    text = unparse(node) if unparse is not None else type(node).__name__
    return text if len(text) <= 80 else text[:79] + "…"
