"""
Maps an HTTP request to the arguments of its function: path values, query values and keys of a JSON body, by parameter
name. Errors name the parameter.
"""
import inspect
import json
import re

from .arguments import CONTEXT_PARAMETERS
from .http_request import Request
from .parameter_types import TypeMismatch, checked, mark_of, mismatch, type_of

ABSENT = object()
# Numbers in text form, the same in every language.
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?\Z", re.IGNORECASE)
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\Z")


class BadRequest(Exception):
    """The request does not fit the function: 400."""


class HttpSignature:
    """How the function of a route is called."""

    def __init__(self, fn):
        self.takes_any = False
        self.takes_request = False
        self._whole = False
        self._context = None
        self._parameters = []
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            self.takes_any = True
            return
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
        named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        if named and named[-1].name in CONTEXT_PARAMETERS and type_of(named[-1]) is None:
            self._context = named.pop().name
        self._parameters = named
        self.takes_request = any(_wants_request(each) for each in named)
        self._whole = len(named) == 1 and named[0].name == "input" and type_of(named[0]) in (None, "object") and not self.takes_any

    def bind(self, request, context):
        """Returns (positional, by name) for one call. Raises BadRequest."""
        body = ABSENT if self.takes_request else _body_of(request)
        if self._whole:
            positional, by_name = [_whole(request, body)], {}
        else:
            positional, by_name = self._spread(request, {} if body is ABSENT else body)
        if self._context is not None:
            by_name[self._context] = context
        return positional, by_name

    def _spread(self, request, body):
        if not isinstance(body, dict):
            raise BadRequest("body: must be a JSON object whose keys are the parameters")
        names = [each.name for each in self._parameters]
        for key in body:
            if key not in names and not self.takes_any:
                takes = ", ".join(names) if names else "no parameters"
                raise BadRequest(f"{key}: is not a parameter of this route; it takes {takes}")
        positional, by_name = [], {key: value for key, value in body.items() if key not in names}
        for each in self._parameters:
            try:
                value = _value_of(each, request, body)
            except TypeMismatch as error:
                raise BadRequest(str(error)) from None
            if each.kind is each.POSITIONAL_ONLY:
                positional.append(each.default if value is ABSENT else value)
            elif value is not ABSENT:
                by_name[each.name] = value
        return positional, by_name


def _body_of(request):
    data = request.body()
    if not data.strip():
        return ABSENT
    if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise BadRequest("Content-Encoding: must be absent; a function that takes the raw request may decode its body")
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError:
        raise BadRequest("body: must be UTF-8 text") from None
    except ValueError:
        raise BadRequest("body: must be JSON") from None


def _whole(request, body):
    """Merges all values; a body that is not an object stays as it is."""
    if body is not ABSENT and not isinstance(body, dict):
        return body
    return {**request.query, **({} if body is ABSENT else body), **request.path_values}


def _value_of(parameter, request, body):
    name = parameter.name
    if _wants_request(parameter):
        return request
    kind = type_of(parameter)
    if name in request.path_values:
        return _from_text(name, kind, [request.path_values[name]])
    if name in body:
        return checked(parameter, body[name])
    if name in request.query_lists:
        return _from_text(name, kind, request.query_lists[name])
    if parameter.default is parameter.empty:
        raise BadRequest(f"{name}: is required")
    return ABSENT


def _from_text(name, kind, texts):
    """Converts text of the path or the query to the type; without a type it stays text."""
    text = texts[-1]
    if kind in ("integer", "number"):
        return _number(name, kind, text)
    if kind == "boolean":
        if text in ("true", "1"):
            return True
        if text in ("false", "0"):
            return False
        raise mismatch(name, kind)
    if kind == "object":
        raise mismatch(name, kind)
    return texts if kind == "array" else text


def _number(name, kind, text):
    if NUMBER.match(text):
        try:
            # An integer of any length stays exact.
            value = int(text) if kind == "integer" and WHOLE_NUMBER.match(text) else float(text)
            if abs(value) != float("inf") and (kind == "number" or value == int(value)):
                return int(value) if kind == "integer" else value
        except ValueError:
            # Longer than Python parses.
            pass
    raise mismatch(name, kind)


def _wants_request(parameter):
    return parameter.annotation is Request or mark_of(parameter) == "Request" or (parameter.name == "request" and type_of(parameter) is None)
