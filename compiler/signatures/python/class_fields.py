"""What the body of a class says about its fields: rules, defaults, aliases, the members of an enum, and its configuration."""
import ast

from annotations import is_plain, last_name, negative

NUMBERS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf"}
TEXTS = {"description": "description", "title": "title", "pattern": "pattern", "regex": "pattern"}


def keyword(node, name):
    """Returns the literal of a call's argument by name; None without one."""
    if isinstance(node, ast.Call):
        for each in node.keywords:
            if each.arg == name and isinstance(each.value, ast.Constant):
                return each.value.value
    return None


def is_field(node):
    return isinstance(node, ast.Call) and last_name(node.func) in ("Field", "field")


def is_required(value):
    """True for a field without a default."""
    if value is None or isinstance(value, ast.Constant) and value.value is Ellipsis:
        return True
    if not is_field(value):
        return False
    if value.args:
        return isinstance(value.args[0], ast.Constant) and value.args[0].value is Ellipsis
    return not any(each.arg in ("default", "default_factory", "init") for each in value.keywords)


def with_rules(schema, value):
    """Adds the rules and the default of a field, or of a mark in Annotated."""
    if not schema:
        return schema
    found = {}
    default = value
    if isinstance(value, ast.Call):
        default = value.args[0] if is_field(value) and value.args else None
        is_array = schema.get("type") == "array"
        for each in value.keywords:
            rule = each.value.value if isinstance(each.value, ast.Constant) else negative(each.value)
            if each.arg in NUMBERS and isinstance(rule, (int, float)):
                found[NUMBERS[each.arg]] = rule
            elif each.arg in TEXTS and isinstance(rule, str):
                found[TEXTS[each.arg]] = rule
            elif each.arg in ("min_length", "max_length") and isinstance(rule, int):
                found[each.arg[:3] + ("Items" if is_array else "Length")] = rule
            elif each.arg == "default":
                default = each.value
    if isinstance(default, ast.Constant) and is_plain(default.value):
        found["default"] = default.value
    return {**schema, **found}


def enum_values(node):
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and not each.targets[0].id.startswith("_"):
            if isinstance(each.value, ast.Constant):
                yield each.value.value
            elif isinstance(each.value, ast.Call) and last_name(each.value.func) == "auto" and any(last_name(base) == "StrEnum" for base in node.bases):
                yield each.targets[0].id.lower()
            else:
                # Its value is known only when it runs.
                yield ...


def model_settings(node):
    """Returns `extra` and `alias_generator` of a model's configuration."""
    pairs = []
    for each in node.body:
        if isinstance(each, ast.ClassDef) and each.name == "Config":
            pairs += [(part.targets[0].id, part.value) for part in each.body if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)]
        target = each.targets[0] if isinstance(each, ast.Assign) else each.target if isinstance(each, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == "model_config":
            if isinstance(each.value, ast.Call):
                pairs += [(part.arg, part.value) for part in each.value.keywords]
            elif isinstance(each.value, ast.Dict):
                pairs += [(getattr(key, "value", None), value) for key, value in zip(each.value.keys, each.value.values)]
    return {name: value.value if isinstance(value, ast.Constant) else last_name(value) for name, value in pairs if name in ("extra", "alias_generator")}


def generated(generator, name):
    """Returns the alias that one of pydantic's generators makes."""
    if generator not in ("to_camel", "to_pascal"):
        return name
    pascal = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return pascal if generator == "to_pascal" else pascal[:1].lower() + pascal[1:]
