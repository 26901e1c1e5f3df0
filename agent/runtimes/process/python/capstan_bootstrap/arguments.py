"""
Maps a job's input to the arguments of its function. Errors name a missing or unknown key, or the place of a value that
does not fit.
"""
import inspect

from .model_types import annotations_of, is_model
from .parameter_types import TypeMismatch, mark_of, parameters_of
from .typed_values import Unfit

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
        self._positional = []
        self._parameters = []
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            return
        annotations = annotations_of(fn)
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
        named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        self.context = context_parameter(named, annotations)
        self._positional = positional_names(named)
        order = [each.name for each in named]
        named = [each for each in named if each is not self.context]
        self._parameters = parameters_of(named, annotations)
        if self.takes_any or len(named) != 1:
            return
        [only] = self._parameters
        if only.is_model or only.name == "input" and only.mark not in PLAIN_TYPES:
            # The parameter of the whole input.
            self.whole = only
            self._positional = self._positional if only.kind is inspect.Parameter.KEYWORD_ONLY else through(order, only.name)

    def bind(self, value, context):
        """Returns (positional, by name) for one call. Raises InputError."""
        try:
            by_name = self._by_name(value) if self.whole is None else self._whole(value)
        except (TypeMismatch, Unfit) as error:
            raise InputError(str(error)) from None
        if self.context is not None:
            by_name[self.context.name] = context
        defaults = {each.name: each.default for each in self._parameters}
        return [by_name.pop(name) if name in by_name else defaults[name] for name in self._positional], by_name

    def takes(self, name):
        """Returns True when a parameter has this name."""
        return any(each.name == name for each in self._parameters)

    def _whole(self, value):
        only = self.whole
        # A caller that gives nothing gets the default.
        if value == {} and only.is_model and not only.is_required:
            return {}
        return {only.name: only.from_whole(value, "input")}

    def _by_name(self, value):
        if not isinstance(value, dict):
            raise InputError("input must be an object")
        self._check_keys(value)
        return {**value, **{each.name: each.from_json(value[each.name]) for each in self._parameters if each.name in value}}

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


def positional_names(parameters):
    """Returns the names of positional-only parameters, which come first."""
    return [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_ONLY]


def through(names, last):
    """Returns the names up to a whole value's: it is passed by position, as a wrapper may call it by another name."""
    return names[: names.index(last) + 1]


def context_parameter(named, annotations):
    """
    Returns the parameter that receives the context instead of a value of the caller; None if there is none. It is
    `ctx` at any place, otherwise a last `context`, unless its type is a plain value or a model.
    """
    for each in named:
        if each.name == "ctx" and (each is named[-1] or mark_of(each, annotations) not in PLAIN_TYPES):
            return each
    if named and named[-1].name == "context" and mark_of(named[-1], annotations) not in PLAIN_TYPES and not is_model(annotations.get("context")):
        return named[-1]
    return None
