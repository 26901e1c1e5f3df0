"""
Converts JSON values to the types that a function declares: dataclasses, pydantic's models, enums, dates and others
(docs/values.md). A converter is `convert(value, path, reading, from_text=False)`: what does not fit is noted in the
reading, and the result is then not used. `from_text`: the value is text of a path, a query or a key, or an array of such.

Converters are made once, when the function is loaded. A class has one converter, which a recursive class refers to.
"""
import enum
import inspect
import typing

from .class_values import FieldsConverter
from .json_values import place_of
from .model_types import inner_of, is_dataclass, is_typed_dict, is_union
from .pydantic_values import needs_pydantic, pydantic_converter
from .simple_values import choice, null, of_type, simple_converter

# Problems that one message names, and that one value is read for.
MAX_NAMED = 10
MAX_READ = 100
MAPPING = typing.get_origin(typing.Mapping)
ABSTRACT_SET = typing.get_origin(typing.AbstractSet)


class Unfit(Exception):
    """A value does not fit its declared type. `problems`: (place, rule) of its parts."""

    def __init__(self, problems, root):
        self.problems = [(place_of(path) or root, rule) for path, rule in problems[:MAX_NAMED]]
        text = "; ".join(f"{place}: {rule}" for place, rule in self.problems)
        super().__init__(f"{text}; and more" if len(problems) > MAX_NAMED else text)


class Reading:
    """What one conversion has found."""

    def __init__(self, known=None):
        self.problems = []
        # Results of unions by converter and value. Members that contain the union again would otherwise read a value
        # of 30 levels 2 to the 30 times.
        self.known = {} if known is None else known

    def fail(self, path, rule):
        if len(self.problems) < MAX_READ:
            self.problems.append((path, rule))

    def trial(self):
        return Reading(self.known)


def converted(convert, value, root, *, is_whole=False, from_text=False):
    """Returns the converted value. `root`: its name, which places in a whole body do not begin with. Raises Unfit."""
    path = () if is_whole else (root,)
    reading = Reading()
    try:
        result = convert(value, path, reading, from_text)
    except RecursionError:
        raise Unfit([(path, "is nested too deeply")], root) from None
    if reading.problems:
        raise Unfit(reading.problems, root)
    return result


def converter_of(annotation):
    """Returns the converter of an annotation; None if its values are passed as they are."""
    return Types().of(annotation)


class Types:
    """The converters of one annotation, by class."""

    def __init__(self):
        self._classes = {}

    def of(self, annotation):
        if needs_pydantic(annotation):
            return pydantic_converter(annotation)
        kind = inner_of(annotation)
        if kind is None:
            return null
        if is_union(kind):
            return self._union(typing.get_args(kind))
        origin = typing.get_origin(kind)
        if origin is typing.Literal:
            return choice(typing.get_args(kind), None)
        if origin is not None:
            return self._generic(origin, typing.get_args(kind))
        return self._class(kind) if inspect.isclass(kind) else None

    def _generic(self, origin, arguments):
        if not inspect.isclass(origin):
            # Final, Required and others: qualifiers of the type inside.
            return self.of(arguments[0]) if arguments else None
        if origin is tuple:
            return self._tuple(arguments)
        if issubclass(origin, MAPPING):
            return _mapping(self.of(arguments[0]), self.of(arguments[1])) if len(arguments) == 2 else of_type("object")
        if issubclass(origin, ABSTRACT_SET) or origin is ABSTRACT_SET:
            return _set(frozenset if origin is frozenset else set, self.of(arguments[0]))
        return _list(self.of(arguments[0])) if arguments and issubclass(list, origin) else None

    def _class(self, kind):
        simple = simple_converter(kind)
        if simple is not None:
            return simple
        if issubclass(kind, enum.Enum):
            return choice([each.value for each in kind], kind)
        if kind is set or kind is frozenset:
            return _set(kind, None)
        if kind is tuple:
            return self._tuple((typing.Any, Ellipsis))
        if not is_typed_dict(kind) and not is_dataclass(kind):
            return None
        made = self._classes.get(kind)
        if made is None:
            # Kept before its fields are read, which may refer to it.
            made = self._classes[kind] = FieldsConverter(kind)
            made.read_fields(self.of)
        return made

    def _tuple(self, arguments):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            inner = _list(self.of(arguments[0]))
            return lambda value, path, reading, from_text=False: tuple(inner(value, path, reading, from_text) or ())
        converters = [self.of(each) for each in arguments if each != ()]

        def convert(value, path, reading, from_text=False):
            if not isinstance(value, list) or len(value) != len(converters):
                return reading.fail(path, f"must be an array of length {len(converters)}")
            return tuple(_part(each, value[index], path + (index,), reading, from_text) for index, each in enumerate(converters))

        return convert

    def _union(self, members):
        has_null = type(None) in members
        others = [each for each in members if each is not type(None)]
        converters = [self.of(each) for each in others]
        # A member of any value.
        if None in converters:
            return None
        names = ", ".join(each.__name__ if inspect.isclass(each) and not typing.get_origin(each) else str(each).replace("typing.", "") for each in others)

        def try_all(value, path, reading, from_text):
            if len(converters) == 1:
                return converters[0](value, path, reading, from_text)
            for converter in converters:
                trial = reading.trial()
                result = converter(value, path, trial, from_text)
                if not trial.problems:
                    return result
            return reading.fail(path, f"must fit one of {names}{' or be null' if has_null else ''}")

        def convert(value, path, reading, from_text=False):
            if value is None and has_null:
                return None
            if not isinstance(value, (dict, list)):
                return try_all(value, path, reading, from_text)
            key = (id(try_all), id(value))
            if key not in reading.known:
                trial = reading.trial()
                reading.known[key] = (try_all(value, path, trial, from_text), trial.problems)
            result, problems = reading.known[key]
            for problem in problems:
                reading.fail(*problem)
            return result

        return convert


def _part(converter, value, path, reading, from_text=False):
    """Returns a converted part of a value; the part itself if it has no converter."""
    return value if converter is None else converter(value, path, reading, from_text)


def _list(converter):
    def convert(value, path, reading, from_text=False):
        if not isinstance(value, list):
            return reading.fail(path, "must be an array")
        return value if converter is None else [converter(each, path + (index,), reading, from_text) for index, each in enumerate(value)]

    return convert


def _set(kind, converter):
    inner = _list(converter)

    def convert(value, path, reading, from_text=False):
        items = inner(value, path, reading, from_text)
        try:
            return None if items is None else kind(items)
        except TypeError:
            return reading.fail(path, "must be an array without arrays and objects")

    return convert


def _mapping(key, converter):
    def convert(value, path, reading, from_text=False):
        if not isinstance(value, dict):
            return reading.fail(path, "must be an object")
        keys = [_part(key, name, path + (name,), reading, True) for name in value]
        items = [_part(converter, each, path + (name,), reading) for name, each in value.items()]
        return dict(zip(keys, items))

    return convert
