"""
Maps a job's input to the arguments of its function. Errors name a missing or unknown key, or the place of a value that
does not fit.
"""
import inspect

from .model_types import annotations_of, is_model
from .parameter_types import TypeMismatch, mark_of, parameters_of
from .typed_values import Unfit

# A last parameter with one of these names receives the job's context instead of a key of the input.
CONTEXT_PARAMETERS = ("ctx", "context")
# Types whose values are not objects with keys: a parameter with such an annotation takes a key of the input.
PLAIN_TYPES = frozenset(("str", "int", "float", "bool", "bytes", "list", "tuple", "set", "List", "Tuple", "Set", "Sequence"))


class InputError(Exception):
    """The input does not fit the function; its message is the job's error."""


class Signature:
    """How a function takes its input. Raises UnusableType for a parameter that cannot be validated."""

    def __init__(self, fn):
        # Without a readable signature, the function itself reports invalid arguments.
        self.takes_any = True
        self.whole = None
        self.context = None
        self._parameters = []
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            return
        annotations = annotations_of(fn)
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
        named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        if named and _is_context(named[-1], annotations):
            self.context = named.pop()
        self._parameters = parameters_of(named, annotations)
        if self.takes_any or len(named) != 1:
            return
        [only] = self._parameters
        if only.is_model or only.name == "input" and only.mark not in PLAIN_TYPES:
            # The parameter of the whole input.
            self.whole = only

    def bind(self, value, context):
        """Returns (positional, by name) for one call. Raises InputError."""
        try:
            positional, by_name = self._by_name(value) if self.whole is None else self._whole(value)
        except (TypeMismatch, Unfit) as error:
            raise InputError(str(error)) from None
        if self.context is not None:
            if self.context.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(context)
            else:
                by_name[self.context.name] = context
        return positional, by_name

    def takes(self, name):
        """Returns True when a parameter has this name."""
        return any(each.name == name for each in self._parameters)

    def _whole(self, value):
        only = self.whole
        # A caller that gives nothing gets the default.
        if value == {} and only.is_model and not only.is_required:
            return [], {}
        whole = only.from_whole(value, "input")
        return ([], {only.name: whole}) if only.kind is inspect.Parameter.KEYWORD_ONLY else ([whole], {})

    def _by_name(self, value):
        if not isinstance(value, dict):
            raise InputError("input must be an object")
        self._check_keys(value)
        by_name = {**value, **{each.name: each.from_json(value[each.name]) for each in self._parameters if each.name in value}}
        positional = []
        for each in self._parameters:
            if each.is_positional_only:
                positional.append(by_name.pop(each.name) if each.name in by_name else each.default)
        return positional, by_name

    def _check_keys(self, value):
        names = [each.name for each in self._parameters]
        for key in value:
            if key in names or (self.takes_any and (self.context is None or key != self.context.name)):
                continue
            takes = ": " + ", ".join(names) if names else " no arguments"
            raise InputError(f"unknown argument: {key} (the function takes{takes})")
        for each in self._parameters:
            if each.is_required and each.name not in value:
                raise InputError("missing argument: " + each.name)


def _is_context(parameter, annotations):
    """True for `ctx`, and for `context` unless its type is a plain value or a model."""
    if parameter.name != "context":
        return parameter.name in CONTEXT_PARAMETERS
    return mark_of(parameter, annotations) not in PLAIN_TYPES and not is_model(annotations.get(parameter.name))
