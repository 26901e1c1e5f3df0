"""
Converters of single values: JSON's own types, dates, durations, numbers of any precision, identifiers, paths, bytes and
choices.
"""
import binascii
import json
import re

ARTICLES = {"integer": "an", "array": "an", "object": "an"}
DURATION = re.compile(r"([+-]?)P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?\Z")
# Numbers in text form, the same in every language.
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?\Z", re.IGNORECASE)
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z")
# Up to here a float holds every integer: 1e23 does not say all its digits.
EXACT = 2**53
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\Z")
FORMS = {
    "datetime": "an ISO 8601 date and time, such as 2026-01-31T12:00:00Z",
    "date": "an ISO 8601 date, such as 2026-01-31",
    "time": "an ISO 8601 time, such as 12:00:00",
}


def fits(kind, value):
    """True if a JSON value has the type, one of JSON's names."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and is_number or isinstance(value, float) and value.is_integer() and abs(value) <= EXACT
    if kind == "number":
        return is_number
    return isinstance(value, {"string": str, "boolean": bool, "array": list, "object": dict}[kind])


def rule_of(kind):
    return f"must be {ARTICLES.get(kind, 'a')} {kind}"


def of_type(kind):
    def convert(value, path, reading, from_text=False):
        if from_text and kind in ("integer", "number", "boolean"):
            value = of_text(kind, value)
        if not fits(kind, value):
            return reading.fail(path, rule_of(kind))
        # JSON does not distinguish integers: 1.0 is one.
        return int(value) if kind == "integer" else value

    return convert


def null(value, path, reading, from_text=False):
    return None if value is None else reading.fail(path, "must be null")


def choice(values, kind):
    """Returns the converter of a Literal, or of an Enum `kind`; its members are found by their values."""
    rule = "must be one of " + ", ".join(_shown(getattr(each, "value", each)) for each in values)

    def convert(value, path, reading, from_text=False):
        for each in values:
            plain = getattr(each, "value", each)
            if (type(plain) is type(value) and plain == value) or _same(plain, value, from_text):
                return each if kind is None else kind(each)
        return reading.fail(path, rule)

    return convert


def _shown(value):
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def _same(plain, value, from_text):
    """True for a value that JSON writes otherwise: 1.0 for 1, an array for a tuple, text for a key."""
    if from_text:
        return str(plain) == value
    if isinstance(plain, bool) or isinstance(value, bool):
        return False
    if isinstance(plain, tuple):
        return list(plain) == value
    return isinstance(value, (str, int, float)) and plain == value


def simple_converter(kind):
    """Returns the converter of a class of single values; None for any other class."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if not isinstance(kind, type):
        return None
    for each in kind.__mro__:
        made = _BY_NAME.get((each.__module__.split(".")[0], each.__name__))
        if made is not None:
            return made(kind)
    return None


def _dated(name):
    def make(kind):
        def convert(value, path, reading, from_text=False):
            if isinstance(value, str):
                try:
                    # Before Python 3.11 the abbreviation of UTC is not read.
                    return kind.fromisoformat(value[:-1] + "+00:00" if name != "date" and value[-1:] in ("Z", "z") else value)
                except ValueError:
                    pass
            return reading.fail(path, f"must be {FORMS[name]}")

        return convert

    return make


def _duration(kind):
    def convert(value, path, reading, from_text=False):
        try:
            if fits("number", value):
                return kind(seconds=value)
            match = DURATION.match(value) if isinstance(value, str) else None
            if match is not None and any(match.groups()[1:]):
                days, hours, minutes = (int(each or 0) for each in match.groups()[1:4])
                whole = kind(days=days, hours=hours, minutes=minutes, seconds=float(match.group(5) or 0))
                return -whole if match.group(1) == "-" else whole
        except (OverflowError, ValueError):
            # More than a duration holds, or not a number.
            pass
        return reading.fail(path, "must be a number of seconds or an ISO 8601 duration, such as PT1H30M")

    return convert


def _decimal(kind):
    def convert(value, path, reading, from_text=False):
        if isinstance(value, str) or fits("number", value):
            try:
                made = kind(str(value).strip())
                if made.is_finite():
                    return made
            except ArithmeticError:
                pass
        return reading.fail(path, "must be a number or a string that contains one")

    return convert


def _uuid(kind):
    def convert(value, path, reading, from_text=False):
        try:
            return kind(value)
        except (ValueError, AttributeError, TypeError):
            return reading.fail(path, "must be a UUID")

    return convert


def _path(kind):
    def convert(value, path, reading, from_text=False):
        if not isinstance(value, str) or "\0" in value:
            return reading.fail(path, "must be a string with a path")
        return kind(value)

    return convert


def _bytes(kind):
    def convert(value, path, reading, from_text=False):
        # Python's own function skips characters outside of the alphabet.
        if not isinstance(value, str) or len(value) % 4 != 0 or not BASE64.match(value):
            return reading.fail(path, "must be a base64 string")
        return kind(binascii.a2b_base64(value))

    return convert


def of_text(kind, text):
    """Returns the number or boolean that text stands for; None if it stands for none."""
    if kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text)
    if not NUMBER.match(text):
        return None
    try:
        # An integer of any length stays exact, up to what Python parses.
        value = int(text) if kind == "integer" and WHOLE_NUMBER.match(text) else float(text)
        if abs(value) == float("inf") or kind == "integer" and not fits(kind, value):
            return None
        return int(value) if kind == "integer" else value
    except ValueError:
        return None


_PLAIN = {
    str: of_type("string"),
    int: of_type("integer"),
    float: of_type("number"),
    bool: of_type("boolean"),
    list: of_type("array"),
    dict: of_type("object"),
    type(None): null,
    bytes: _bytes(bytes),
    bytearray: _bytes(bytearray),
}
_BY_NAME = {
    ("datetime", "datetime"): _dated("datetime"),
    ("datetime", "date"): _dated("date"),
    ("datetime", "time"): _dated("time"),
    ("datetime", "timedelta"): _duration,
    ("decimal", "Decimal"): _decimal,
    ("uuid", "UUID"): _uuid,
    ("pathlib", "PurePath"): _path,
}
