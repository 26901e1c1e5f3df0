"""
Finds the parameters whose values are models: classes of pydantic, dataclasses and TypedDicts. The worker's bootstrap
and the SDK have the same file, so that stubs send what functions take. pydantic itself is never imported.
"""
from __future__ import annotations

import inspect
import sys
import types
import typing
from typing import Any, Dict, Optional, Sequence

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_OBJECTS = ("dict", "Dict", "Mapping", "MutableMapping")


def annotations_of(function: Any) -> Dict[str, Any]:
    """
    Returns the annotations of a function by parameter, with deferred ones evaluated. One that cannot be evaluated, such
    as a name imported for type checkers only, stays a string.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    unwrapped = inspect.unwrap(function)
    named = getattr(unwrapped, "__func__", unwrapped)
    names = getattr(named, "__globals__", None) or getattr(getattr(type(named), "__call__", None), "__globals__", {})
    return {each.name: evaluated(each.annotation, names) for each in parameters if each.annotation is not each.empty}


def evaluated(annotation: Any, names: Dict[str, Any]) -> Any:
    """Returns an annotation with its names resolved; unchanged where they are unknown."""
    if inspect.isclass(annotation) and typing.get_origin(annotation) is None:
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        # Python 3.8 has no Annotated of its own to keep.
        return _hints(holder, names)["it"]
    except Exception:
        # Whatever evaluating text of the user's module raises.
        return annotation


def class_hints(kind: Any) -> Dict[str, Any]:
    """Returns the annotations of a class, evaluated where their names are known."""
    try:
        return _hints(kind, None)
    except Exception:
        # One of them cannot be evaluated.
        found: Dict[str, Any] = {}
        for each in reversed(kind.__mro__):
            names = vars(sys.modules.get(each.__module__, object))
            found.update({name: evaluated(hint, dict(names)) for name, hint in each.__dict__.get("__annotations__", {}).items()})
        return found


def _hints(holder: Any, names: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    if hasattr(typing, "Annotated"):
        return typing.get_type_hints(holder, names, include_extras=True)
    return typing.get_type_hints(holder, names)


def is_model(annotation: Any) -> bool:
    """True for a model, and for a union of models with or without None."""
    inner = inner_of(annotation)
    if is_union(inner):
        members = [each for each in typing.get_args(inner) if each is not type(None)]
        return bool(members) and all(is_model(each) for each in members)
    return is_pydantic(inner) and not _is_plain_pydantic(inner) or is_dataclass(inner) or is_typed_dict(inner)


def inner_of(annotation: Any) -> Any:
    """Returns the type without Annotated, NewType and the name of an alias."""
    for _ in range(20):
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    return annotation


def is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in _UNIONS


def is_pydantic(kind: Any) -> bool:
    """True for a type that pydantic itself validates: of version 2, or a model of version 1."""
    return inspect.isclass(kind) and (hasattr(kind, "__get_pydantic_core_schema__") or is_pydantic_1(kind))


def is_pydantic_1(kind: Any) -> bool:
    return inspect.isclass(kind) and not hasattr(kind, "__pydantic_validator__") and hasattr(kind, "__fields__") and hasattr(kind, "parse_obj")


def _is_plain_pydantic(kind: Any) -> bool:
    """True for a type such as a URL or an address: its values are not objects with fields."""
    return not is_pydantic_1(kind) and not hasattr(kind, "__pydantic_validator__")


def is_dataclass(kind: Any) -> bool:
    return inspect.isclass(kind) and hasattr(kind, "__dataclass_fields__")


def is_typed_dict(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, dict) and hasattr(kind, "__total__") and hasattr(kind, "__annotations__")


def whole_parameter(named: Sequence[inspect.Parameter], annotations: Dict[str, Any], is_route: bool) -> Optional[str]:
    """
    Returns the name of the parameter that takes the whole input or body instead of a key of it; None if there is none.
    For a job it is the only parameter, if that is a model. For a route it is the only model, if all other parameters
    can be in the path or the query.
    """
    models = [each.name for each in named if is_model(annotations.get(each.name))]
    if len(models) != 1:
        return None
    others = [each for each in named if each.name != models[0]]
    if is_route:
        return None if any(_needs_body(annotations.get(each.name)) for each in others) else models[0]
    return models[0] if not others else None


def _needs_body(annotation: Any) -> bool:
    inner = inner_of(annotation)
    origin = typing.get_origin(inner) or inner
    if is_model(inner) or getattr(origin, "__name__", "") in _OBJECTS:
        return True
    return any(_needs_body(each) for each in typing.get_args(inner) if not isinstance(each, (str, int)))
