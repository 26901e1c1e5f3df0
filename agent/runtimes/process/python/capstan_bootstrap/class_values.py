"""Makes instances of dataclasses, and checks TypedDicts, from JSON objects."""
import inspect

from .model_types import class_hints, is_typed_dict


class FieldsConverter:
    """The converter of one class. Unknown keys are refused, as for the parameters of a function."""

    def __init__(self, kind):
        self._kind = kind
        self._is_dict = is_typed_dict(kind)
        self._fields = {}
        self._required = []

    def read_fields(self, converter_of):
        """Reads the fields; `converter_of` returns the converter of an annotation. Raises what their text raises."""
        hints = class_hints(self._kind)
        if self._is_dict:
            self._fields = {name: converter_of(hint) for name, hint in hints.items()}
            self._required = [name for name in hints if name in _required_keys(self._kind)]
            return
        for name, each in inspect.signature(self._kind).parameters.items():
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            hint = hints.get(name)
            # Of a field that only the constructor takes, the type inside.
            self._fields[name] = None if hint is None else converter_of(getattr(hint, "type", hint) if _is_init_var(hint) else hint)
            if each.default is each.empty:
                self._required.append(name)

    def __call__(self, value, path, reading, from_text=False):
        if not isinstance(value, dict):
            return reading.fail(path, "must be an object")
        before = len(reading.problems)
        for name in self._required:
            if name not in value:
                reading.fail(path + (name,), "is required")
        made = {}
        for name, each in value.items():
            if name not in self._fields:
                reading.fail(path + (name,), f"is not a field of {self._kind.__name__}")
                continue
            converter = self._fields[name]
            made[name] = each if converter is None else converter(each, path + (name,), reading)
        return None if len(reading.problems) > before else self._make(made, path, reading)

    def _make(self, made, path, reading):
        if self._is_dict:
            return made
        try:
            return self._kind(**made)
        except (ValueError, AssertionError) as error:
            # Raised by __post_init__, to which the values do not fit.
            return reading.fail(path, str(error) or type(error).__name__)


def _required_keys(kind):
    """Before Python 3.9, all keys are required or none."""
    keys = getattr(kind, "__required_keys__", None)
    return keys if keys is not None else class_hints(kind) if kind.__total__ else ()


def _is_init_var(hint):
    return type(hint).__name__ == "InitVar"
