"""Facts about a declared function or class, without running it: for the build, the worker and the stubs."""
from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from .errors import DeclarationError
from .model_types import annotations_of, is_model, whole_parameter

#: Types whose values are not objects with keys: a parameter ``input`` of such a type takes a key of the input.
_PLAIN = frozenset(("str", "int", "float", "bool", "bytes", "list", "tuple", "set", "List", "Tuple", "Set", "Sequence"))


@dataclass(frozen=True)
class Shape:
    """How a function is called."""

    #: Names in order, without the context; None if it takes any.
    parameters: Optional[Tuple[str, ...]]
    is_async: bool = False
    is_generator: bool = False
    #: Its only parameter is called ``input`` and receives the whole input.
    whole: bool = False
    #: Name of the parameter, a model, that is the whole input, or the whole body of a route's request.
    body: Optional[str] = None


class DeclaredEndpoint(Protocol):
    """The endpoint that declares a function: a :class:`capstan.declaration.Declaration`."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class FunctionDeclaration:
    """One decorated function or class; its ``__capstan__`` attribute."""

    endpoint: DeclaredEndpoint
    #: The function or class itself.
    target: Any
    name: str
    #: Dotted name of the module that defines it.
    module: str
    #: File as Python names it, and the line of its definition.
    file: str
    line: int
    shape: Shape
    is_class: bool = False
    #: Public methods of a class.
    methods: Mapping[str, Shape] = field(default_factory=dict)
    #: Of a load-balanced endpoint's route.
    http_method: Optional[str] = None
    http_path: Optional[str] = None

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def row(self) -> Dict[str, Any]:
        """Returns the function's row in the manifest without its module, which the build adds."""
        row: Dict[str, Any] = {"name": self.name, "is_async": self.shape.is_async, "is_class": self.is_class}
        if self.http_method is not None:
            row.update(http_method=self.http_method, http_path=self.http_path)
        return row


def describe(target: Any, endpoint: DeclaredEndpoint, http_method: Optional[str] = None, http_path: Optional[str] = None) -> FunctionDeclaration:
    """Describes a function or class. Raises DeclarationError for anything other than a named function or class."""
    what = f"endpoint {endpoint.name}"
    if not inspect.isfunction(target) and not inspect.isclass(target):
        raise DeclarationError(f"{what}: must decorate a function or a class, not {type(target).__name__}")
    name = target.__name__
    if not name.isidentifier():
        raise DeclarationError(f"{what}: the function must have a name, not {name}")
    is_class = inspect.isclass(target)
    if is_class and http_method is not None:
        raise DeclarationError(f"{what}: the route {http_method} {http_path} must have a function, and {name} is a class")
    methods = _methods(target) if is_class else {}
    if is_class and not methods:
        raise DeclarationError(f"{what}: the class {name} has no public method")
    file, line = _place(target)
    return FunctionDeclaration(
        endpoint=endpoint,
        target=target,
        name=name,
        module=target.__module__,
        file=file,
        line=line,
        shape=Shape(()) if is_class else shape_of(target, http_method is not None),
        is_class=is_class,
        methods=methods,
        http_method=http_method,
        http_path=http_path,
    )


def shape_of(function: Callable[..., Any], is_route: bool = False) -> Shape:
    """Reads a function's signature; a method must be bound, so that it has no ``self``."""
    found = list(inspect.signature(function).parameters.values())
    takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
    named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    annotations = annotations_of(function)
    context = _context_of(named, annotations)
    named = [each for each in named if each is not context]
    whole = len(named) == 1 and named[0].name == "input" and not takes_any and _type_name(named[0].annotation) not in _PLAIN
    return Shape(
        whole=whole,
        body=None if takes_any else whole_parameter(named, annotations, is_route),
        parameters=None if takes_any else tuple(each.name for each in named),
        is_async=inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function),
        is_generator=inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function),
    )


def _context_of(named: Sequence[inspect.Parameter], annotations: Mapping[str, Any]) -> Optional[inspect.Parameter]:
    """Returns the parameter that receives the context: ``ctx`` at any place, otherwise a last ``context``."""
    for each in named:
        if each.name == "ctx" and (each is named[-1] or _type_name(each.annotation) not in _PLAIN):
            return each
    last = named[-1] if named else None
    if last is None or last.name != "context" or _type_name(last.annotation) in _PLAIN or is_model(annotations.get("context")):
        return None
    return last


def _type_name(mark: Any) -> str:
    """
    Returns the name of an annotation. Annotations are strings where the module defers them; those of typing have a name
    of their own.
    """
    name = mark if isinstance(mark, str) else getattr(mark, "__name__", None) or getattr(mark, "_name", None)
    return (name or "").split("[")[0].split(".")[-1].strip()


def _methods(target: Any) -> Dict[str, Shape]:
    """
    Returns the methods that a caller may select: those without a leading underscore, otherwise only ``__call__``.
    """
    found = {}
    for name, value in inspect.getmembers(target):
        raw = inspect.getattr_static(target, name)
        if isinstance(raw, (staticmethod, classmethod)):
            shaped = value
        elif inspect.isfunction(value):
            shaped = value.__get__(object(), target)
        else:
            continue
        if not name.startswith("_"):
            found[name] = shape_of(shaped)
        elif name == "__call__":
            found[name] = shape_of(shaped)
    public = {name: shape for name, shape in found.items() if name != "__call__"}
    return public or found


def _place(target: Any) -> Tuple[str, int]:
    """Returns the place of the definition, at its first decorator."""
    code = getattr(target, "__code__", None)
    if code is not None:
        return code.co_filename, code.co_firstlineno
    try:
        return inspect.getsourcefile(target) or "?", inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        # A class created without a file, in an interactive session.
        return "?", 0
