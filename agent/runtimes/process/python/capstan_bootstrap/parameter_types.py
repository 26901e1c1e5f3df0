"""
A parameter of a function, and what its annotation says about JSON values: for jobs and for routes, as
lib/parameter-types.ts does for Node.
"""
from .model_types import inner_of, is_model, is_union
from .pydantic_values import UnusableType
from .simple_values import fits, rule_of
from .typed_values import converted, converter_of

# JSON's types, by the names of the annotations.
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
# Annotations whose type says all that is known of their values.
BARE = (str, int, float, bool, list, dict)


class TypeMismatch(Exception):
    """The value has another type of JSON; the message names the parameter."""


class Parameter:
    """A parameter with its annotation evaluated. Raises UnusableType for a type that cannot be validated."""

    def __init__(self, parameter, annotations):
        self.name = parameter.name
        self.kind = parameter.kind
        self.default = parameter.default
        self.annotation = annotations.get(parameter.name, parameter.annotation)
        self.is_required = parameter.default is parameter.empty
        self.is_positional_only = parameter.kind is parameter.POSITIONAL_ONLY
        self.is_model = is_model(self.annotation)
        self.mark = "" if self.is_model or self.annotation is parameter.empty else _name_of(self.annotation)
        # The JSON type; None if any is passed or the converter decides.
        self.type = TYPES.get(self.mark)
        self._convert = None
        if self.annotation is not parameter.empty and self.annotation not in BARE:
            try:
                self._convert = converter_of(self.annotation)
            except (UnusableType, RecursionError) as error:
                raise UnusableType(f"the parameter {self.name}: {error}") from error

    def from_json(self, value):
        """Returns the value for the function. Null stands for an optional value. Raises TypeMismatch, Unfit."""
        if value is None and not self.is_required:
            return value
        if self.type is not None and not fits(self.type, value):
            raise self.mismatch()
        if self._convert is not None:
            return converted(self._convert, value, self.name)
        # JSON does not distinguish integers: 1.0 is one.
        return int(value) if self.type == "integer" else value

    def from_whole(self, value, root):
        """Returns the value of a parameter that takes the whole input or body. Raises Unfit."""
        return value if self._convert is None else converted(self._convert, value, root, is_whole=True)

    def from_texts(self, texts):
        """Returns the value of a path or of a query whose name may be repeated. Raises Unfit."""
        given = texts if self.type == "array" or _takes_several(self.annotation) else texts[-1]
        return given if self._convert is None else converted(self._convert, given, self.name, from_text=True)

    def mismatch(self):
        return TypeMismatch(f"{self.name}: {rule_of(self.type)}")


def parameters_of(named, annotations):
    return [Parameter(each, annotations) for each in named]


def mark_of(parameter, annotations):
    """Returns the name of a parameter's annotated type; empty without one, for a union and for a model."""
    annotation = annotations.get(parameter.name, parameter.annotation)
    return "" if annotation is parameter.empty or is_model(annotation) else _name_of(annotation)


def _name_of(mark):
    # Annotations that cannot be evaluated are strings; those of typing have a name of their own.
    name = mark if isinstance(mark, str) else getattr(mark, "__name__", None) or getattr(mark, "_name", None)
    name = (name or "").strip()
    return "" if _is_union_text(name) else name.split("[")[0].split(".")[-1].strip()


def _takes_several(annotation):
    """True for a set of values, and for an optional array or set."""
    inner = inner_of(annotation)
    if is_union(inner):
        return any(_takes_several(each) or TYPES.get(_name_of(each)) == "array" for each in inner.__args__)
    return _name_of(inner) in ("set", "Set", "frozenset", "FrozenSet", "AbstractSet")


def _is_union_text(text):
    """True for `a | b` outside of brackets."""
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            return True
    return False
