"""Validates the settings of an endpoint where they are declared."""
from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from .declared_parameters import DECLARED_PARAMETERS, UNPRINTABLE, WORKERS_RANGE, CheckedParameters, DeclaredParameters
from .errors import DeclarationError

Gpu = Union[str, Enum, Sequence[Union[str, Enum]], None]
Workers = Union[int, Tuple[int, int]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CPU = re.compile(r"[Cc][Pp][Uu][A-Za-z0-9]+-([1-9][0-9]*)-([1-9][0-9]*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILLED_TEXT = "must be a non-empty string"
#: Longest value repeated in an error message, in characters of JSON.
_LONGEST_SHOWN = 60


class Parameters(DeclaredParameters, total=False):
    """The parameters of ``Endpoint(name=…)``."""

    name: Optional[str]
    gpu: Gpu
    #: A maximum, or (minimum, maximum).
    workers: Workers
    #: Packages installed into the artifact.
    dependencies: Sequence[str]
    #: System packages; they require an image that has them.
    system_dependencies: Sequence[str]
    #: Environment variables of the workers; secret.
    env: Optional[Mapping[str, str]]
    volume: Optional[str]
    #: The image runs its own HTTP server, and no jobs.
    load_balanced: bool
    #: A web application (ASGI or WSGI) that answers every path itself, or where it is: ``"main:app"``.
    app: Any
    #: A program that listens on ``$PORT``, with its arguments; ``$PORT`` and ``$CAPSTAN_…`` in them are replaced, without a shell.
    #: With ``load_balanced=False`` a foreign worker, which fetches jobs.
    command: Sequence[str]
    #: A command line that makes files of the project, such as ``npm run build``. It runs in a clean copy at build time; what it
    #: makes is part of the artifact, whatever ``.gitignore`` says.
    build: Optional[str]
    #: Parameters of Flash's declarations, which have no effect here.
    accelerate_downloads: Any
    datacenter: Any
    flashboot: Any
    min_cuda_version: Any


#: Requests that a server takes at once unless its declaration says otherwise: it was made for several.
_SERVER_CONCURRENCY = 100


@dataclass(frozen=True)
class Settings(CheckedParameters):
    """An endpoint's settings with the defaults filled in."""

    name: str
    #: Types or groups in order of preference; empty for a CPU endpoint.
    gpu: Tuple[str, ...]
    workers_min: int
    workers_max: int
    dependencies: Tuple[str, ...]
    system_dependencies: Tuple[str, ...]
    #: Secret values.
    env: Mapping[str, str]
    volume: Optional[str]
    load_balanced: bool
    #: The application, or where it is; None without one.
    app: Any
    command: Tuple[str, ...]
    build: Optional[str]

    def __repr__(self) -> str:
        # Values of env are secrets.
        return f"Settings(name={self.name!r}, gpu={self.gpu!r}, cpu={self.cpu!r}, workers=({self.workers_min}, {self.workers_max}))"

    def resource(self) -> Dict[str, Any]:
        """Returns the entry under ``resources`` of the manifest, without its functions (docs/manifest.md)."""
        entry: Dict[str, Any] = {"workersMin": self.workers_min, "workersMax": self.workers_max}
        for name, parameter in DECLARED_PARAMETERS.items():
            value = getattr(self, name)
            if value not in (None, "") and (name != "gpu_count" or self.gpu):
                entry[parameter["key"]] = value
        for key, value in (
            ("gpuIds", ",".join(self.gpu)),
            ("is_load_balanced", self.load_balanced),
            ("volume", self.volume),
            ("env", dict(self.env)),
            ("dependencies", list(self.dependencies)),
            ("systemDependencies", list(self.system_dependencies)),
            ("command", list(self.command)),
        ):
            if value:
                entry[key] = value
        return entry


def check_settings(given: Mapping[str, Any]) -> Settings:
    """
    Validates the settings. Raises DeclarationError, naming the parameter and the rule, and TypeError for an unknown
    parameter.
    """
    for key in given:
        if key not in _KNOWN:
            near = difflib.get_close_matches(key, _KNOWN, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise TypeError(f"Endpoint() got an unexpected keyword argument {key!r}{hint}")
    name = given.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DeclarationError(
            f"name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit{('' if name is None else f', not {name!r}')}"
        )
    rules = _Rules(name)
    gpus = rules.gpus(given.get("gpu"))
    app = rules.app(given.get("app"))
    command = rules.command(given.get("command"))
    if app is not None and command:
        raise rules.broken("app", "and command are mutually exclusive")
    is_server = app is not None or bool(command)
    if is_server:
        given = {"max_concurrency": _SERVER_CONCURRENCY, **given}
    load_balanced = rules.flag("load_balanced", given.get("load_balanced", is_server))
    if app is not None and not load_balanced:
        raise rules.broken("load_balanced", "must not be False: an app serves requests")
    parameters = {key: rules.parameter(key, given) for key in DECLARED_PARAMETERS}
    if gpus and parameters["cpu"]:
        raise rules.broken("gpu", "and cpu are mutually exclusive")
    if parameters["gpu_count"] != 1 and not gpus:
        raise rules.broken("gpu_count", "requires gpu")
    for version in ("min_cuda", "min_driver"):
        if parameters[version] and not gpus:
            raise rules.broken(version, "requires gpu")
    if not gpus:
        parameters["gpu_count"] = 0
    least, most = rules.workers(given.get("workers", (0, 1)))
    return Settings(
        **parameters,
        name=name,
        gpu=gpus,
        workers_min=least,
        workers_max=most,
        dependencies=rules.texts("dependencies", given.get("dependencies", ())),
        system_dependencies=rules.texts("system_dependencies", given.get("system_dependencies", ())),
        env=rules.env(given.get("env")),
        volume=rules.text("volume", given.get("volume")),
        load_balanced=load_balanced,
        app=app,
        command=command,
        build=rules.text("build", given.get("build")),
    )


_KNOWN = frozenset(Parameters.__annotations__)


class _Rules:
    """The rules of single parameters; every error names the endpoint."""

    def __init__(self, name: str) -> None:
        self._name = name

    def broken(self, parameter: str, rule: str, value: object = None) -> DeclarationError:
        return DeclarationError(f"endpoint {self._name}: {parameter} {rule}{'' if value is None else f', not {value!r}'}")

    def flag(self, parameter: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.broken(parameter, "must be True or False", value)
        return value

    def text(self, parameter: str, value: object) -> Optional[str]:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.broken(parameter, "must be a non-empty string", value)
        return str(value.value) if isinstance(value, Enum) else value

    def texts(self, parameter: str, value: object) -> Tuple[str, ...]:
        if value is None:
            return ()
        # A string is a sequence of strings, but is never intended as one.
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise self.broken(parameter, "must be a list of strings", value)
        for each in value:
            if not isinstance(each, str) or not each.strip():
                raise self.broken(parameter, "must be a list of non-empty strings", value)
        return tuple(value)

    def app(self, value: object) -> Any:
        if value is None or callable(value) or (isinstance(value, str) and value.strip()):
            return value
        raise self.broken("app", "must be a web application, or the module that has one", value)

    def command(self, value: object) -> Tuple[str, ...]:
        words = self.texts("command", value)
        if value is not None and not words:
            raise self.broken("command", "must name a program")
        return words

    def gpus(self, value: object) -> Tuple[str, ...]:
        if value is None:
            return ()
        several = value if isinstance(value, (list, tuple)) else [value]
        names = []
        for each in several:
            name = each.value if isinstance(each, Enum) else each
            if not isinstance(name, str) or not name.strip() or "," in name:
                raise self.broken("gpu", "must be the name of a GPU type or group, or a list of them", value)
            names.append(name)
        if not names:
            raise self.broken("gpu", "must name at least one GPU type or group")
        return tuple(names)

    def workers(self, value: object) -> Tuple[int, int]:
        lowest, highest = WORKERS_RANGE
        rule = f"must be a maximum or (minimum, maximum), integers from {lowest} to {highest}"
        pair = (0, value) if isinstance(value, int) else value
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise self.broken("workers", rule, value)
        for each in pair:
            if isinstance(each, bool) or not isinstance(each, int) or not lowest <= each <= highest:
                raise self.broken("workers", rule, value)
        least, most = pair
        if most < least:
            raise self.broken("workers", "must have a maximum of at least the minimum", value)
        return least, most

    def env(self, value: object) -> Mapping[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.broken("env", "must be a dict of strings")
        for key, each in value.items():
            if not isinstance(key, str) or _VARIABLE.fullmatch(key) is None:
                raise self.broken("env", f"has the name {key!r}; a name must contain only letters, digits and underscores")
            # The value may be a secret: only its name is shown.
            if not isinstance(each, str):
                raise self.broken("env", f"must have a string at {key}, not {type(each).__name__}")
            if "\0" in each:
                raise self.broken("env", f"must not contain the character NUL at {key}")
        return dict(value)

    def parameter(self, name: str, given: Mapping[str, Any]) -> Any:
        """Returns a parameter with its own rule, or its default."""
        parameter = DECLARED_PARAMETERS[name]
        value = given.get(name, parameter["default"])
        if value is None and parameter["default"] is None:
            return None
        if isinstance(value, Enum):
            value = value.value
        rule = _broken_rule(parameter["rule"], value)
        if rule is not None:
            raise self.broken(name, rule)
        return value


def _broken_rule(rule: Mapping[str, Any], value: object) -> Optional[str]:
    """Returns the rule that a value violates, as worded in lib/setting-rules.ts; None when it violates none."""
    kind = rule["type"]
    if kind == "integer":
        return _broken_integer(rule, value)
    if kind == "text":
        return _broken_text(rule, value)
    if kind == "cpu":
        return _broken_cpu(rule, value)
    if kind == "choice":
        values = rule["values"]
        alternatives = " or ".join(part for part in (", ".join(values[:-1]), values[-1]) if part)
        return None if value in values else f"must be {alternatives}{_shown(value)}"
    if kind == "flag":
        return None if isinstance(value, bool) else f"must be True or False{_shown(value)}"
    raise TypeError(f"no rule of the kind {kind}")


def _broken_integer(rule: Mapping[str, Any], value: object) -> Optional[str]:
    least, most, zero = rule["min"], rule["max"], rule.get("zero")
    if isinstance(value, int) and not isinstance(value, bool):
        if least <= value <= most or (value == 0 and zero is not None):
            return None
    unit = f" {rule['unit']}" if "unit" in rule else ""
    start = "must be an integer" if zero is None else f"must be 0 ({zero}) or"
    return f"{start} between {least} and {most}{unit}{_shown(value)}"


def _broken_text(rule: Mapping[str, Any], value: object) -> Optional[str]:
    may_be_empty = rule.get("mayBeEmpty", False)
    if not isinstance(value, str):
        return f"{'must be a string' if may_be_empty else _FILLED_TEXT}{_shown(value)}"
    if not may_be_empty and not value.strip():
        return f"{_FILLED_TEXT}{_shown(value)}"
    most = rule.get("maxLength")
    if most is not None and len(value) > most:
        return f"must have at most {most} characters, not {len(value)}"
    if rule.get("printable", False):
        for number, character in enumerate(value, 1):
            if any(first <= ord(character) <= last for first, last in UNPRINTABLE):
                return f"must be one line of printable characters; character {number} is U+{ord(character):04X}"
    pattern = rule.get("pattern")
    if pattern is not None and re.fullmatch(pattern, value) is None:
        return f"{rule['form']}{_shown(value)}"
    return None


def _broken_cpu(rule: Mapping[str, Any], value: object) -> Optional[str]:
    if not isinstance(value, str) or not value.strip():
        return f"{_FILLED_TEXT}{_shown(value)}"
    found = _CPU.fullmatch(value)
    if found is None:
        return f"must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8{_shown(value)}"
    if int(found.group(1)) <= rule["maxCpus"] and int(found.group(2)) <= rule["maxMemoryGb"]:
        return None
    return f"must have at most {rule['maxCpus']} vCPU and {rule['maxMemoryGb']} GB{_shown(value)}"


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = type(value).__name__
    return "" if len(text) > _LONGEST_SHOWN else f", not {text}"
