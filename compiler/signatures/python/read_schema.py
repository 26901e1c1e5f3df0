"""
Reads from the sources which JSON a parameter's annotation means, as JSON Schema, without running them: classes of
pydantic, dataclasses, TypedDicts and enums of the application's own files, and the types of the standard library. What
the sources do not show, such as a class of a package, is left open ({}).
"""
import ast
import json

from annotations import arguments_of, is_none, is_plain, last_name, negative, outer, parsed
from class_fields import enum_values, generated, is_required, keyword, model_settings, with_rules

# At most these are kept of one function: a schema that is larger is left open.
MAX_CHARACTERS = 64 * 1024
MAX_CLASSES = 200
DEEPEST = 40

MODEL, DATACLASS, TYPED_DICT, ENUM, ROOT_MODEL = "model", "dataclass", "typed dict", "enum", "root model"
BASES = {"BaseModel": MODEL, "RootModel": ROOT_MODEL, "TypedDict": TYPED_DICT, "Enum": ENUM, "IntEnum": ENUM, "StrEnum": ENUM}
SIMPLE = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bytearray": {"type": "string", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "Decimal": {"anyOf": [{"type": "number"}, {"type": "string"}]},
    "UUID": {"type": "string", "format": "uuid"},
    "Path": {"type": "string"},
    "PurePath": {"type": "string"},
    "None": {"type": "null"},
    "list": {"type": "array"},
    "List": {"type": "array"},
    "tuple": {"type": "array"},
    "Tuple": {"type": "array"},
    "Sequence": {"type": "array"},
    "set": {"type": "array", "uniqueItems": True},
    "Set": {"type": "array", "uniqueItems": True},
    "frozenset": {"type": "array", "uniqueItems": True},
    "FrozenSet": {"type": "array", "uniqueItems": True},
    "dict": {"type": "object"},
    "Dict": {"type": "object"},
    "Mapping": {"type": "object"},
    "EmailStr": {"type": "string", "format": "email"},
    "AnyUrl": {"type": "string", "format": "uri"},
    "HttpUrl": {"type": "string", "format": "uri"},
    "SecretStr": {"type": "string", "format": "password"},
    "PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "NonNegativeInt": {"type": "integer", "minimum": 0},
    "PositiveFloat": {"type": "number", "exclusiveMinimum": 0},
    "NonNegativeFloat": {"type": "number", "minimum": 0},
}
OPEN = ("Any", "object", "Request", "Context", "Callable", "TypeVar")


class Schemas:
    """The schemas of one function's parameters."""

    def __init__(self, scope):
        self._scope = scope
        self._classes = {}
        self._definitions = {}

    def of(self, annotation):
        """Returns the schema of an annotation with its definitions; None when the sources do not tell."""
        if annotation is None:
            return None
        found = self._of(annotation, self._scope, 0)
        used = self._used(found, {})
        whole = {**found, "$defs": used} if used else found
        return whole if found and len(json.dumps(whole)) <= MAX_CHARACTERS else None

    def is_model(self, annotation):
        """True for a model, and for a union of models with or without None."""
        return annotation is not None and self._is_model(annotation, self._scope, 0)

    def is_unknown_class(self, annotation):
        """True for a class that a package defines, which may be a model."""
        node = parsed(annotation)
        name = last_name(node)
        if name == "" or isinstance(node, ast.Subscript):
            return False
        found, other = self._scope.find(name) if isinstance(node, ast.Name) else (None, name)
        return found is None and name[:1].isupper() and other not in SIMPLE and other not in OPEN

    def _is_model(self, annotation, scope, depth):
        node = parsed(annotation)
        if depth > DEEPEST:
            return False
        if isinstance(node, ast.BinOp):
            return self._are_models([node.left, node.right], scope, depth)
        if isinstance(node, ast.Subscript):
            name, arguments = last_name(node.value), arguments_of(node)
            if name in ("Optional", "Union"):
                return self._are_models(arguments, scope, depth)
            return name == "Annotated" and self._is_model(arguments[0], scope, depth + 1)
        found, where = scope.find(node.id) if isinstance(node, ast.Name) else (None, None)
        if isinstance(found, ast.ClassDef):
            return self._kind(found, where) in (MODEL, DATACLASS, TYPED_DICT, ROOT_MODEL)
        return found is not None and self._is_model(found, where, depth + 1)

    def _are_models(self, nodes, scope, depth):
        nodes = [each for each in nodes if not is_none(each)]
        return bool(nodes) and all(self._is_model(each, scope, depth + 1) for each in nodes)

    def _of(self, annotation, scope, depth):
        node = parsed(annotation)
        if node is None or depth > DEEPEST:
            return {}
        if is_none(node):
            return {"type": "null"}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union([node.left, node.right], scope, depth)
        if isinstance(node, ast.Subscript):
            return self._generic(last_name(node.value), arguments_of(node), scope, depth)
        if isinstance(node, ast.Attribute):
            return dict(SIMPLE.get(node.attr, {}))
        if not isinstance(node, ast.Name):
            return {}
        found, where = scope.find(node.id)
        if found is None:
            return dict(SIMPLE.get(where, {}))
        if isinstance(found, ast.ClassDef):
            return self._class(found, where, depth)
        return self._of(found, where, depth + 1)

    def _generic(self, name, arguments, scope, depth):
        def inner(index):
            return self._of(arguments[index], scope, depth + 1) if index < len(arguments) else {}

        if name == "Optional":
            return self._union([*arguments, ast.Constant(value=None)], scope, depth)
        if name == "Union":
            return self._union(arguments, scope, depth)
        if name == "Literal":
            values = [getattr(each, "value", negative(each)) for each in arguments]
            return {"enum": values} if all(isinstance(each, (ast.Constant, ast.UnaryOp)) for each in arguments) and all(map(is_plain, values)) else {}
        if name == "Annotated":
            schema = inner(0)
            for each in arguments[1:]:
                schema = with_rules(schema, each)
            return schema
        if name in ("Final", "Required", "NotRequired", "ReadOnly", "ClassVar"):
            return inner(0)
        base = SIMPLE.get(name, {"type": "array"} if name in ("Iterable", "Collection", "MutableSequence") else {})
        if base.get("type") == "object" and len(arguments) == 2:
            return {**base, "additionalProperties": inner(1)}
        if name in ("tuple", "Tuple") and not (len(arguments) == 2 and isinstance(arguments[1], ast.Constant) and arguments[1].value is Ellipsis):
            items = [self._of(each, scope, depth + 1) for each in arguments]
            return {**base, "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        return {**base, "items": inner(0)} if base.get("type") == "array" else {}

    def _union(self, nodes, scope, depth):
        flat = []
        for node in nodes:
            schema = self._of(node, scope, depth + 1)
            flat += schema["anyOf"] if list(schema) == ["anyOf"] else [schema]
        # A member that is open leaves the whole open.
        return {"anyOf": flat} if all(flat) else {}

    def _kind(self, node, scope, depth=0):
        """Returns what a class is; None for an ordinary one."""
        for mark in node.decorator_list:
            if last_name(mark.func if isinstance(mark, ast.Call) else mark) == "dataclass":
                return DATACLASS
        for base in node.bases:
            name = last_name(base.value if isinstance(base, ast.Subscript) else base)
            found, where = scope.find(name) if not isinstance(base, ast.Attribute) else (None, name)
            if isinstance(found, ast.ClassDef) and depth < DEEPEST:
                kind = self._kind(found, where, depth + 1)
                # A subclass of a dataclass without its decorator has its fields.
                if kind is not None:
                    return kind
            elif found is None and where in BASES:
                return BASES[where]
        return None

    def _class(self, node, scope, depth):
        kind = self._kind(node, scope)
        if kind is None:
            return {}
        if kind == ENUM:
            values = list(enum_values(node))
            return {"title": node.name, "enum": values} if values and ... not in values and all(map(is_plain, values)) else {}
        if node not in self._classes:
            if len(self._classes) >= MAX_CLASSES:
                return {}
            names = list(self._classes.values())
            name, number = node.name, 2
            while name in names:
                name, number = f"{node.name}_{number}", number + 1
            # Kept before its fields are read, which may refer to it.
            self._classes[node] = name
            self._definitions[name] = self._fields(node, scope, kind, depth)
        return {"$ref": f"#/$defs/{self._classes[node]}"}

    def _fields(self, node, scope, kind, depth):
        if kind == ROOT_MODEL:
            root = next((base for base in node.bases if isinstance(base, ast.Subscript)), None)
            return {"title": node.name, **({} if root is None else self._of(arguments_of(root)[0], scope, depth + 1))}
        properties, required = {}, []
        is_closed = self._read_fields(node, scope, kind, depth, (properties, required))
        text = ast.get_docstring(node)
        return {
            "title": node.name,
            "type": "object",
            **({"description": text.split("\n\n")[0][:500]} if text else {}),
            "properties": properties,
            "required": required,
            **({"additionalProperties": False} if is_closed or kind in (DATACLASS, TYPED_DICT) else {}),
        }

    def _read_fields(self, node, scope, kind, depth, read):
        properties, required = read
        is_closed = False
        for base in node.bases:
            found, where = scope.find(base.id) if isinstance(base, ast.Name) else (None, None)
            if isinstance(found, ast.ClassDef) and depth < DEEPEST:
                is_closed = self._read_fields(found, where, kind, depth + 1, read) or is_closed
        settings = self._settings(node, scope, depth)
        total = not any(each.arg == "total" and getattr(each.value, "value", True) is False for each in node.keywords)
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name) or last_name(outer(each.annotation)) == "ClassVar":
                continue
            name = each.target.id
            if name == "model_config" or name.startswith("_") and kind == MODEL or keyword(each.value, "init") is False:
                continue
            schema = with_rules(self._of(each.annotation, scope, depth + 1), each.value)
            alias = keyword(each.value, "validation_alias") or keyword(each.value, "alias")
            key = alias if isinstance(alias, str) and kind == MODEL else generated(settings.get("alias_generator"), name)
            properties.pop(key, None)
            properties[key] = schema
            marked = last_name(outer(each.annotation))
            must = is_required(each.value) and (total or marked == "Required") and marked != "NotRequired"
            required[:] = [other for other in required if other != key] + ([key] if must else [])
        return settings.get("extra", "forbid" if is_closed else None) == "forbid"

    def _settings(self, node, scope, depth):
        """Returns the configuration of a model with that of its bases."""
        settings = {}
        for base in node.bases:
            found, where = scope.find(base.id) if isinstance(base, ast.Name) else (None, None)
            if isinstance(found, ast.ClassDef) and depth < DEEPEST:
                settings.update(self._settings(found, where, depth + 1))
        return {**settings, **model_settings(node)}

    def _used(self, schema, used):
        """Returns the definitions that a schema refers to, and those refer to."""
        waiting = [schema]
        while waiting:
            each = waiting.pop()
            if isinstance(each, list):
                waiting.extend(each)
            elif isinstance(each, dict):
                waiting.extend(each.values())
                name = each["$ref"][len("#/$defs/") :] if isinstance(each.get("$ref"), str) else None
                if name in self._definitions and name not in used:
                    used[name] = self._definitions[name]
                    waiting.append(used[name])
        return used
