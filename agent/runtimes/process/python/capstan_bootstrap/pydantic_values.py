"""
Values that pydantic validates, of version 1 or 2. It is imported only by the user's code: a type of its own exists only
where it is loaded. It reads JSON text, so that strict models take dates and bytes take base64 where they are told to.
"""
import inspect
import json
import sys

from .model_types import inner_of, is_pydantic, is_pydantic_1


class UnusableType(Exception):
    """pydantic cannot validate a type; the message has its reason."""


def needs_pydantic(annotation):
    """True for pydantic's own types, and for types that are annotated with its rules."""
    metadata = getattr(annotation, "__metadata__", ())
    if metadata and "pydantic" in sys.modules and hasattr(sys.modules["pydantic"], "TypeAdapter"):
        if any(type(each).__module__.split(".")[0] in ("pydantic", "annotated_types", "pydantic_core") for each in metadata):
            return True
    return is_pydantic(inner_of(annotation))


def pydantic_converter(annotation):
    kind = inner_of(annotation)
    if is_pydantic_1(kind):
        return _version_1(kind)
    pydantic = sys.modules["pydantic"]
    try:
        adapter = pydantic.TypeAdapter(annotation)
    except Exception as error:
        # Whatever pydantic raises for a type that it cannot validate.
        raise UnusableType(f"pydantic cannot validate {getattr(kind, '__name__', kind)}: {error}") from error

    def convert(value, path, reading, from_text=False):
        try:
            # Infinity can be the value of a great number; pydantic decides about it.
            return adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            return _note(error.errors(include_url=False, include_context=False, include_input=False), path, reading)

    return convert


def _version_1(kind):
    errors = tuple(each.ValidationError for name, each in list(sys.modules.items()) if name in ("pydantic", "pydantic.v1") and inspect.ismodule(each))

    def convert(value, path, reading, from_text=False):
        try:
            return kind.parse_obj(value)
        except errors as error:
            return _note(error.errors(), path, reading)

    return convert


def _note(errors, path, reading):
    for each in errors:
        # Version 1 names the object itself so.
        steps = tuple(step for step in each["loc"] if step != "__root__")
        reading.fail(path + steps, each["msg"])
