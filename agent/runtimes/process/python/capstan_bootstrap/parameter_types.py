"""
Checks whether a JSON value has a parameter's annotated type: for jobs and for routes, as lib/parameter-types.ts does
for Node.
"""

# The types that are checked, by the names of the annotations.
TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "List": "array",
    "tuple": "array",
    "Tuple": "array",
    "Sequence": "array",
    "dict": "object",
    "Dict": "object",
    "Mapping": "object",
}


class TypeMismatch(Exception):
    """The value has another type; the message names the parameter."""


def type_of(parameter):
    """Returns the JSON type of a parameter's annotation; None if its type is not checked."""
    return TYPES.get(mark_of(parameter))


def mark_of(parameter):
    """Returns the name of a parameter's annotated type; empty without one, and for a union."""
    mark = parameter.annotation
    if mark is parameter.empty:
        return ""
    # Annotations are strings where the module defers them; those of typing have a name of their own.
    name = mark if isinstance(mark, str) else getattr(mark, "__name__", None) or getattr(mark, "_name", None)
    name = (name or "").strip()
    return "" if _is_union(name) else name.split("[")[0].split(".")[-1].strip()


def checked(parameter, value):
    """Returns the value for the parameter. Null stands for an optional value. Raises TypeMismatch."""
    kind = type_of(parameter)
    if kind is None or (value is None and parameter.default is not parameter.empty):
        return value
    if not fits(kind, value):
        raise mismatch(parameter.name, kind)
    # JSON does not distinguish integers: 1.0 is one.
    return int(value) if kind == "integer" else value


def fits(kind, value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and is_number or isinstance(value, float) and value.is_integer()
    if kind == "number":
        return is_number
    return isinstance(value, {"string": str, "boolean": bool, "array": list, "object": dict}[kind])


def mismatch(name, kind):
    return TypeMismatch(f"{name}: must be {'an' if kind[0] in 'aio' else 'a'} {kind}")


def _is_union(text):
    """True for `a | b` outside of brackets."""
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            return True
    return False
