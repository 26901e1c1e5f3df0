"""
Maps a job's input to the arguments of its function. Errors name a missing or unknown key, or a value of the wrong type.
"""
import inspect

from .parameter_types import TypeMismatch, checked, mark_of

# A last parameter with one of these names receives the job's context instead of a key of the input.
CONTEXT_PARAMETERS = ("ctx", "context")
# Types whose values are not objects with keys: a parameter with such an annotation takes a key of the input.
PLAIN_TYPES = frozenset(("str", "int", "float", "bool", "bytes", "list", "tuple", "set", "List", "Tuple", "Set", "Sequence"))


class InputError(Exception):
    """The input does not fit the function; its message is the job's error."""


class Signature:
    """How a function takes its input."""

    def __init__(self, fn):
        # Without a readable signature, the function itself reports invalid arguments.
        self.takes_any = True
        self.whole = False
        self.context = None
        self._parameters = []
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            return
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
        named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        if named and _is_context(named[-1]):
            self.context = named.pop()
        self._parameters = named
        self.whole = len(named) == 1 and named[0].name == "input" and _plain_type(named[0]) is None and not self.takes_any

    def bind(self, value, context):
        """Returns (positional, by name) for one call. Raises InputError."""
        if self.whole:
            positional, by_name = [value], {}
        else:
            if not isinstance(value, dict):
                raise InputError("input must be an object")
            self._check_keys(value)
            positional, by_name = self._spread(self._check_types(value))
        if self.context is not None:
            if self.context.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(context)
            else:
                by_name[self.context.name] = context
        return positional, by_name

    def takes(self, name):
        """Returns True when a parameter has this name."""
        return any(each.name == name for each in self._parameters)

    def _spread(self, value):
        by_name = dict(value)
        positional = []
        for each in self._parameters:
            if each.kind is each.POSITIONAL_ONLY:
                positional.append(by_name.pop(each.name) if each.name in by_name else each.default)
        return positional, by_name

    def _check_types(self, value):
        """Returns the input with the values converted for the parameters. Raises InputError."""
        try:
            return {**value, **{each.name: checked(each, value[each.name]) for each in self._parameters if each.name in value}}
        except TypeMismatch as error:
            raise InputError(str(error)) from None

    def _check_keys(self, value):
        names = [each.name for each in self._parameters]
        for key in value:
            if key in names or (self.takes_any and (self.context is None or key != self.context.name)):
                continue
            takes = ": " + ", ".join(names) if names else " no arguments"
            raise InputError(f"unknown argument: {key} (the function takes{takes})")
        for each in self._parameters:
            if each.default is each.empty and each.name not in value:
                raise InputError("missing argument: " + each.name)


def _is_context(parameter):
    if parameter.name not in CONTEXT_PARAMETERS:
        return False
    return parameter.name == "ctx" or _plain_type(parameter) is None


def _plain_type(parameter):
    """Returns the name of a parameter's annotated type if its values are plain, otherwise None."""
    name = mark_of(parameter)
    return name if name in PLAIN_TYPES else None
