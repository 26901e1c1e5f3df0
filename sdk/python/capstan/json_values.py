"""
Encodes Python values as JSON by one table (docs/values.md). The worker's bootstrap and the SDK have the same file, so
that results, chunks, progress and arguments are encoded alike. Modules such as numpy, pydantic and decimal are never
imported: a value of theirs exists only where the module is loaded, and a worker starts sooner without them.
"""
from __future__ import annotations

import binascii
import collections
import datetime
import enum
import json
import math
import sys
from collections.abc import KeysView, Mapping, ValuesView
from typing import Any, List, Optional, Set

#: Longest place in a message, characters.
_LONGEST_PLACE = 200
_TEXTS = {("decimal", "Decimal"), ("uuid", "UUID"), ("pathlib", "PurePath")}
_ARRAYS = (set, frozenset, collections.deque, KeysView, ValuesView)
#: What tensors, arrays and tables of other packages have: torch, jax, cupy and `array`; pyarrow; polars.
_LISTS = ("tolist", "to_pylist", "to_dicts", "to_list")
#: Calls that make a value with a form, named in errors.
_CALLS = ("to_dict", "as_dict", "asdict", "toarray", "numpy", "to_json")


class NotJson(TypeError, ValueError):
    """A value has no JSON form; the message names its place and its type."""


class _NoForm(TypeError):
    """A single value has no row in the table."""


def to_bytes(value: Any, root: str) -> bytes:
    """
    Returns the JSON of a value, UTF-8. ``root``: what places begin with; empty for an object whose keys do. Raises
    NotJson.
    """
    try:
        return _write(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Something has no form as it is: keys of a dictionary have one on the slow way, which also finds the place.
        pass
    try:
        return _write(_plain(value, [root] if root else [], set()))
    except RecursionError:
        raise NotJson(f"{root}: it is nested too deeply" if root else "it is nested too deeply") from None


def place_of(path: Any) -> str:
    """Returns a place as text: ``items[2].price``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
        if len(text) > _LONGEST_PLACE:
            return text[:_LONGEST_PLACE] + "…"
    return text


def _write(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_form).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8 encoding, but a JSON escape.
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_form).encode()


def _form(value: Any) -> Any:
    """Returns the form of a value that JSON itself does not know. Its parts may need a form in turn."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.time)):
        text = value.isoformat()
        if text == "NaT":  # the missing date of pandas
            return None
        return text[: -len("+00:00")] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return duration_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return binascii.b2a_base64(value, newline=False).decode()
    if isinstance(value, _ARRAYS):
        return list(value)
    kind = type(value)
    if any((each.__module__.split(".")[0], each.__name__) in _TEXTS for each in kind.__mro__):
        return str(value)
    if _is_of(kind, "numpy"):
        return _from_numpy(value)
    if not isinstance(value, type):
        if _is_of(kind, "pandas"):
            return _from_pandas(value)
        if hasattr(kind, "__pydantic_serializer__") and callable(getattr(value, "model_dump", None)):
            return _from_model(value)
        if hasattr(kind, "__fields__") and callable(getattr(kind, "parse_obj", None)):
            return value.dict(by_alias=True)  # of version 1
        if hasattr(kind, "__dataclass_fields__"):
            return {each.name: getattr(value, each.name) for each in sys.modules["dataclasses"].fields(value)}
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(kind, "__get_pydantic_core_schema__") and "pydantic_core" in sys.modules:
            return sys.modules["pydantic_core"].to_jsonable_python(value)
        for method in _LISTS:
            if callable(getattr(value, method, None)):
                return getattr(value, method)()
    raise _no_form(value)


def _no_form(value: Any) -> _NoForm:
    """Returns the error of a value without a form, with the call that makes one where the value has such a call."""
    kind = type(value)
    return _NoForm(f"a value of the type {_name_of(kind)} has no JSON form{'' if isinstance(value, type) else _remedy(value)}")


def _remedy(value: Any) -> str:
    kind = type(value)
    if hasattr(kind, "__attrs_attrs__"):
        return "; return attrs.asdict(value)"
    if _is_of(kind, "PIL"):
        return '; return the bytes of a file: image.save(buffer, "PNG"), then buffer.getvalue()'
    if hasattr(kind, "__await__"):
        return "; await it"
    if hasattr(kind, "__next__"):
        return "; return list(value)"
    for method in _CALLS:
        if callable(getattr(value, method, None)):
            return f"; return value.{method}()"
    return "; return a dictionary, such as vars(value)" if getattr(value, "__dict__", None) else ""


def _from_model(value: Any) -> Any:
    try:
        return value.model_dump(mode="json", by_alias=True)
    except (TypeError, ValueError):
        # A field of a type that pydantic cannot write, such as an array of numpy, has a form here.
        return value.model_dump(by_alias=True)


def _from_pandas(value: Any) -> Any:
    """
    Tables as arrays of rows, series as arrays of values, both without their index; a missing value (NaN, NaT, NA) is null, as
    tables have no other way to leave one out.
    """
    name = type(value).__name__
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        if not value.columns.is_unique:
            raise _NoForm(f"a {name} with two columns of one name has no JSON form; rename one")
        columns = [_from_pandas(value.iloc[:, at]) for at in range(len(value.columns))]
        keys = value.columns.tolist()
        return [dict(zip(keys, row)) for row in zip(*columns)]
    if callable(getattr(value, "tolist", None)):
        missing = sys.modules["pandas"].isna(value).tolist()
        return [None if is_missing else each for each, is_missing in zip(value.tolist(), missing)]
    if name == "NAType":
        return None
    if name == "Period":
        return str(value)
    raise _no_form(value)


def _from_numpy(value: Any) -> Any:
    """Arrays and scalars of numpy; dates and durations of any precision become those of Python."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not callable(getattr(value, "tolist", None)):
        raise _no_form(value)
    if dtype.kind in "mM":
        value = value.astype(f"{dtype.kind}8[us]")
    plain = value.tolist()
    # A scalar without a counterpart in Python (long double) returns itself.
    return float(plain) if _is_of(type(plain), "numpy") else plain


def duration_text(value: datetime.timedelta) -> str:
    """Returns a duration by ISO 8601: days, hours, minutes and seconds, ``PT0S`` for none."""
    sign, rest = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    hours, seconds = divmod(rest.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest.microseconds else ""
    time = "".join([f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{seconds}{fraction}S" if seconds or fraction else ""])
    days = f"{rest.days}D" if rest.days else ""
    return f"{sign}P{days}{'T' + time if time else ''}" if days or time else "PT0S"


def _plain(value: Any, path: List[Any], around: Set[int]) -> Any:
    """
    Returns a copy of JSON's own types, or raises NotJson with the place. ``path`` and ``around``, the ids of the containers
    around, are those of the whole walk: copies of them would make a deep value quadratic.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{place_of(path)}: {value} is not a number in JSON")
        return value
    if id(value) in around:
        raise NotJson(f"{place_of(path)}: it contains itself")
    around.add(id(value))
    # One frame a level: the depth of a value is bounded by that of calls.
    made: Any
    if isinstance(value, (list, tuple)):
        made = []
        for index, each in enumerate(value):
            path.append(index)
            made.append(_plain(each, path, around))
            path.pop()
    elif isinstance(value, dict):
        made = {}
        for name, each in value.items():
            key = _key(name, path)
            path.append(key)
            made[key] = _plain(each, path, around)
            path.pop()
    else:
        made = _plain(_form_at(value, path), path, around)
    around.discard(id(value))
    return made


def _form_at(value: Any, path: List[Any]) -> Any:
    try:
        return _form(value)
    except _NoForm as error:
        raise NotJson(f"{place_of(path)}: {error}") from None
    except RecursionError:
        raise
    except Exception as error:
        raise NotJson(f"{place_of(path)}: a value of the type {_name_of(type(value))} could not be written: {error}") from error


def _key(key: Any, path: Any) -> str:
    text = _key_text(key)
    if text is None:
        raise NotJson(f"{place_of(path)}: a key of the type {_name_of(type(key))} has no JSON form")
    return text


def _key_text(key: Any) -> Optional[str]:
    """Returns a dictionary's key as JSON has it, which is text; None for one without a form."""
    if isinstance(key, enum.Enum):
        return _key_text(key.value)
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    try:
        form = _form(key)
    except (TypeError, ValueError):
        return None
    return None if isinstance(form, (list, dict)) else _key_text(form)


def _is_of(kind: type, package: str) -> bool:
    return any(each.__module__.split(".")[0] == package for each in kind.__mro__)


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
