"""
Parses a Python file and prints as JSON how the input's keys become the parameters of one of its
functions (CallStyle of nodes.proto). Usage: read_function.py <folder> <file> <function> <queue or
load-balanced>

    def f(a, b=1, *, c=2)    positional   a; b and c are optional
    def f(input)             whole        any keys
    def f(a, **rest)         whole        any keys
    def f(req: Model)        positional   the model takes the whole input
    @decorated               unread       the result depends on running the decorator

A last parameter `ctx`, or `context` unless its type is a plain value, receives the job's context.
"""
import ast
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from read_schema import Schemas  # noqa: E402
from schema_sample import sample_of  # noqa: E402
from sources import Sources  # noqa: E402

SAMPLES = {
    "str": "text",
    "int": 1,
    "float": 1,
    "bool": True,
    "bytes": "text",
    "list": [],
    "tuple": [],
    "set": [],
    "List": [],
    "Tuple": [],
    "Set": [],
    "Sequence": [],
    "dict": {},
    "Dict": {},
    "Mapping": {},
    "Any": "text",
}
TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "List": "array",
    "Tuple": "array",
    "Sequence": "array",
    "dict": "object",
    "Dict": "object",
    "Mapping": "object",
    "Request": "request",
}
PLAIN = frozenset(name for name in SAMPLES if name not in ("dict", "Dict", "Mapping", "Any"))


# Characters that are kept of a docstring, and of a default.
MAX_DESCRIPTION = 2000
MAX_DEFAULT = 1000


def main(folder, path, name, kind):
    try:
        with open(os.path.join(folder, path), "rb") as source:
            tree = ast.parse(source.read(), path)
    except SyntaxError as error:
        return {"kind": "syntax", "line": error.lineno or 1, "message": error.msg, "version": sys.version.split()[0]}
    except ValueError as error:
        return {"kind": "syntax", "line": 1, "message": str(error), "version": sys.version.split()[0]}
    scope = Sources(folder).scope(path, tree)
    return find(tree.body, name, lambda node: read(node, scope, kind == "load-balanced"), lambda node: methods_of(node, scope))


def find(body, name, read_found, read_methods):
    functions = []
    unclear = False
    found = None
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append(node.name)
            # The last definition of a name applies.
            found = read_found(node) if node.name == name else found
        elif isinstance(node, ast.ClassDef):
            found = {"kind": "class", "line": node.lineno, "methods": read_methods(node), **description_of(node)} if node.name == name else found
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [(each.asname or each.name).split(".")[0] for each in node.names]
            unclear = unclear or name in names or "*" in names
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assigned = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            unclear = unclear or name in assigned
        elif not isinstance(node, (ast.Expr, ast.Pass)):
            # Definitions under a condition, in a try block, and so on.
            inner = [each.name for each in ast.walk(node) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
            unclear = unclear or name in inner or any(isinstance(each, ast.ImportFrom) for each in ast.walk(node))
    if found is not None and not unclear:
        return found
    if unclear or "__getattr__" in functions:
        return {"kind": "unclear"}
    return {"kind": "missing", "names": [each for each in functions if not each.startswith("_")]}


def methods_of(node, scope):
    """Returns the public methods of a class with the parameters that the sources show; the worker reads them itself."""
    methods = []
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) or each.name.startswith("_"):
            continue
        if not any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in each.decorator_list):
            first = getattr(each.args, "posonlyargs", []) or each.args.args
            del first[:1]
        methods.append({"name": each.name, "parameters": read_plain(each, scope)["parameters"]})
    return methods


UNREAD = {"kind": "function", "style": "unread", "parameters": []}


def read(node, scope, is_route):
    found = UNREAD if node.decorator_list else read_plain(node, scope, is_route)
    return {**found, **description_of(node)}


def read_plain(node, scope, is_route=False):
    """Reads the function without its decorators. `scope`: the names of its file."""
    schemas = Schemas(scope)
    arguments = node.args
    positional = getattr(arguments, "posonlyargs", []) + arguments.args
    required = len(positional) - len(arguments.defaults)
    named = [(each, index < required, None if index < required else arguments.defaults[index - required]) for index, each in enumerate(positional)]
    named += [(each, default is None, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    context = context_of([each for each, _must, _default in named], schemas)
    named = [each for each in named if each[0] is not context]
    if arguments.kwarg is not None:
        return {"kind": "function", "style": "whole", "parameters": []}
    whole = whole_parameter([each for each, _must, _default in named], schemas, is_route)
    if len(named) == 1 and whole is None:
        if named[0][0].arg == "input" and type_name(named[0][0]) not in PLAIN:
            return {"kind": "function", "style": "whole", "parameters": []}
        if schemas.is_unknown_class(named[0][0].annotation):
            # It may be a model, which only the worker sees.
            return UNREAD
    parameters = []
    for each, must, default in named:
        is_model = schemas.is_model(each.annotation)
        schema = schemas.of(each.annotation)
        parameters.append(
            {
                "name": each.arg,
                "required": must,
                "type": "object" if is_model else TYPES.get(type_name(each), ""),
                "sample": sample_of(schema) if is_model and schema is not None else sample(each, default),
                **({"schema": json.dumps(schema, ensure_ascii=False)} if schema is not None and schema != {"type": TYPES.get(type_name(each))} else {}),
                **({"takes_body": True} if each is whole else {}),
                **default_of(default),
            }
        )
    return {"kind": "function", "style": "positional", "parameters": parameters}


def default_of(default):
    """Returns the default of a parameter as JSON, where the source shows it."""
    try:
        value = None if default is None else ast.literal_eval(default)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {} if value is None or len(units(text)) > 2 * MAX_DEFAULT else {"default_value": text}


def description_of(node):
    """Returns the docstring of a function or class."""
    text = units(ast.get_docstring(node) or "")[: 2 * MAX_DESCRIPTION].decode("utf-16-le", "ignore")
    return {"description": text} if text else {}


def units(text):
    """The service counts UTF-16 units: two bytes each."""
    return text.encode("utf-16-le", "surrogatepass")


def whole_parameter(arguments, schemas, is_route):
    """Returns the parameter that takes the whole input or body, by the rule of capstan/model_types.py."""
    models = [each for each in arguments if schemas.is_model(each.annotation)]
    others = [each for each in arguments if each not in models]
    if len(models) != 1 or others and not is_route or any(needs_body(each, schemas) for each in others):
        return None
    return models[0]


def needs_body(argument, schemas):
    """True for a value that neither a path nor a query has: the request itself, an object, an array of objects."""
    if type_name(argument) == "Request" or argument.arg == "request" and argument.annotation is None:
        return True
    schema = schemas.of(argument.annotation) or {}
    definitions = schema.get("$defs", {})
    waiting = [schema]
    for each in waiting:
        if each.get("type") == "object" or "$ref" in each and each["$ref"][len("#/$defs/") :] in definitions:
            return True
        waiting += [*each.get("anyOf", []), *each.get("prefixItems", []), *([each["items"]] if "items" in each else [])]
    return False


def context_of(arguments, schemas):
    """Returns the parameter that receives the context: `ctx` at any place, otherwise a last `context`."""
    for each in arguments:
        if each.arg == "ctx" and (each is arguments[-1] or type_name(each) not in PLAIN):
            return each
    last = arguments[-1] if arguments else None
    if last is None or last.arg != "context" or type_name(last) in PLAIN or schemas.is_model(last.annotation):
        return None
    return last


def type_name(argument):
    mark = argument.annotation
    if isinstance(mark, ast.Constant) and isinstance(mark.value, str):
        try:
            mark = ast.parse(mark.value.strip(), mode="eval").body
        except SyntaxError:
            return ""
    if isinstance(mark, ast.Subscript):
        mark = mark.value
    if isinstance(mark, ast.Attribute):
        return mark.attr
    return mark.id if isinstance(mark, ast.Name) else ""


def sample(argument, default):
    if isinstance(default, ast.Constant) and isinstance(default.value, (str, int, float, bool)):
        return default.value
    # Bytes are base64 in JSON.
    return "dGV4dA==" if type_name(argument) == "bytes" else SAMPLES.get(type_name(argument), "text")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:5])))
