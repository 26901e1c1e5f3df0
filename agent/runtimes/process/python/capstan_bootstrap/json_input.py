"""Reads JSON from callers: numbers without a value, which Python would read as infinity or NaN, are refused."""
import json
import re

# Text in which a number may exceed the range of a float.
LARGE = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{309}")


class NumberOutOfRange(ValueError):
    """The text has a number that no value stands for."""


def read_json(text):
    """As json.loads. Raises NumberOutOfRange for a number such as 1e400, ValueError for other text."""
    try:
        if LARGE.search(text):
            # Slower, and few texts need it.
            return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        return json.loads(text, parse_constant=_no_constant)
    except (json.JSONDecodeError, NumberOutOfRange):
        raise
    except ValueError:
        # Of int(): its text is too long (sys.get_int_max_str_digits).
        raise NumberOutOfRange("an integer has too many digits") from None


def _no_constant(name):
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _finite(text):
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NumberOutOfRange(f"the number {text[:40]} is beyond the range of a float")
    return value
