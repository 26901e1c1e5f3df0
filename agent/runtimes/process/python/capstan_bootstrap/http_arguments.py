"""
Maps an HTTP request to the arguments of its function: path values, query values and keys of a JSON body, by parameter
name; or the whole body, for the only model. Errors name the parameter, or the place of a value that does not fit.
"""
import inspect

from .arguments import positional_names, through
from .http_request import Request
from .json_input import NumberOutOfRange, read_json
from .model_types import annotations_of, whole_parameter
from .parameter_types import TypeMismatch, parameters_of
from .simple_values import of_text

ABSENT = object()


class BadRequest(Exception):
    """The request does not fit the function: 400."""


class HttpSignature:
    """How the function of a route is called. Raises UnusableType for a parameter that cannot be validated."""

    def __init__(self, fn):
        self.takes_any = False
        self.takes_request = False
        self._whole = False
        self._model = None
        self._context = None
        self._positional = []
        self._parameters = []
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            self.takes_any = True
            return
        annotations = annotations_of(fn)
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in found)
        named = [each for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        parameters = parameters_of(named, annotations)
        self._context = _context_of(parameters)
        self._positional = positional_names(parameters)
        order = [each.name for each in parameters]
        self._parameters = parameters = [each for each in parameters if each.name != self._context]
        self.takes_request = any(_wants_request(each) for each in parameters)
        if self.takes_any:
            return
        if not self.takes_request:
            self._model = whole_parameter([each for each in named if each.name != self._context], annotations, True)
        self._whole = len(parameters) == 1 and self._model is None and parameters[0].name == "input" and parameters[0].type in (None, "object")
        if self._whole and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
            self._positional = through(order, "input")

    def bind(self, request, context):
        """Returns (positional, by name) for one call. Raises BadRequest, Unfit."""
        body = ABSENT if self.takes_request or request.websocket is not None else _body_of(request)
        by_name = {self._parameters[0].name: _whole(request, body)} if self._whole else self._spread(request, body)
        if self._context is not None:
            by_name[self._context] = context
        defaults = {each.name: each.default for each in self._parameters}
        return [by_name.pop(name) if name in by_name else defaults[name] for name in self._positional], by_name

    def _spread(self, request, body):
        keys = {} if body is ABSENT or self._model is not None else body
        if not isinstance(keys, dict):
            raise BadRequest("body: must be a JSON object whose keys are the parameters")
        names = [each.name for each in self._parameters]
        for key in keys:
            if key not in names and not self.takes_any:
                takes = ", ".join(names) if names else "no parameters"
                raise BadRequest(f"{key}: is not a parameter of this route; it takes {takes}")
        by_name = {key: value for key, value in keys.items() if key not in names}
        for each in self._parameters:
            try:
                value = _of_body(each, body) if each.name == self._model else _value_of(each, request, keys)
            except TypeMismatch as error:
                raise BadRequest(str(error)) from None
            if value is not ABSENT:
                by_name[each.name] = value
        return by_name


def _body_of(request):
    data = request.body()
    if not data.strip():
        return ABSENT
    if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise BadRequest("Content-Encoding: must be absent; a function that takes the raw request may decode its body")
    try:
        return read_json(data.decode())
    except UnicodeDecodeError:
        raise BadRequest("body: must be UTF-8 text") from None
    except NumberOutOfRange as error:
        raise BadRequest(f"body: {error}") from None
    except ValueError:
        raise BadRequest("body: must be JSON") from None
    except RecursionError:
        raise BadRequest("body: is nested too deeply") from None


def _whole(request, body):
    """Merges all values; a body that is not an object stays as it is."""
    if body is not ABSENT and not isinstance(body, dict):
        return body
    return {**request.query, **({} if body is ABSENT else body), **request.path_values}


def _of_body(parameter, body):
    """Returns the value of the model that takes the whole body. Without a body it has its default."""
    if body is ABSENT or body == {} and not parameter.is_required:
        if parameter.is_required:
            raise BadRequest("body: is required")
        return ABSENT
    return parameter.from_whole(body, "body")


def _value_of(parameter, request, body):
    name = parameter.name
    if name == "websocket" and request.websocket is not None:
        return request.websocket
    if _wants_request(parameter):
        return request
    if name in request.path_values:
        return _from_text(parameter, [request.path_values[name]])
    if name in body:
        return parameter.from_json(body[name])
    if name in request.query_lists:
        return _from_text(parameter, request.query_lists[name])
    if parameter.is_required:
        raise BadRequest(f"{name}: is required")
    return ABSENT


def _from_text(parameter, texts):
    """Converts text of the path or the query to the type; without a type it stays text."""
    if parameter.type in ("integer", "number", "boolean"):
        value = of_text(parameter.type, texts[-1])
        if value is None:
            raise parameter.mismatch()
        return value
    if parameter.type == "object":
        raise parameter.mismatch()
    return parameter.from_texts(texts)


def _context_of(parameters):
    """Returns the name of the parameter that receives the context: `ctx` at any place, otherwise a last `context`."""
    for each in parameters:
        if each.name == "ctx" and each.type is None:
            return each.name
    last = parameters[-1] if parameters else None
    return last.name if last is not None and last.name == "context" and last.type is None and not last.is_model else None


def _wants_request(parameter):
    if parameter.is_model:
        return False
    return parameter.annotation is Request or parameter.mark == "Request" or (parameter.name == "request" and parameter.type is None)
