"""The settings of an endpoint, checked where they are declared."""
from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from .errors import DeclarationError

Gpu = Union[str, Enum, Sequence[Union[str, Enum]], None]
Workers = Union[int, Tuple[int, int]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: More than any host has.
_MOST_CPUS = 512
_MOST_MEMORY_GB = 8_192
_CPU = re.compile(r"cpu[a-z0-9]+-[1-9]\d*-[1-9]\d*", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORTEST_TIMEOUT_MS = 5_000
_LONGEST_TIMEOUT_MS = 604_800_000


@dataclass(frozen=True)
class Settings:
    """An endpoint's settings with the defaults filled in."""

    name: str
    #: Types or groups in order of preference; empty for a CPU endpoint.
    gpu: Tuple[str, ...]
    gpu_count: int
    #: Empty for a GPU endpoint, and for the smallest CPU.
    cpu: str
    workers_min: int
    workers_max: int
    #: Seconds.
    idle_timeout: int
    dependencies: Tuple[str, ...]
    system_dependencies: Tuple[str, ...]
    #: Secret values.
    env: Mapping[str, str]
    volume: Optional[str]
    image: Optional[str]
    #: The image serves HTTP requests by itself, and no jobs.
    load_balanced: bool
    #: 0 means the service's default.
    execution_timeout_ms: int
    #: None means the service's default.
    scaler_type: Optional[str]
    scaler_value: int
    max_concurrency: int

    def __repr__(self) -> str:
        # Values of env are secrets.
        return f"Settings(name={self.name!r}, gpu={self.gpu!r}, cpu={self.cpu!r}, workers=({self.workers_min}, {self.workers_max}))"

    def resource(self) -> Dict[str, Any]:
        """The entry under ``resources`` of the manifest, without its functions (docs/manifest.md)."""
        entry: Dict[str, Any] = {
            "workersMin": self.workers_min,
            "workersMax": self.workers_max,
            "idleTimeout": self.idle_timeout,
            "maxConcurrency": self.max_concurrency,
            "executionTimeoutMs": self.execution_timeout_ms,
            "scalerValue": self.scaler_value,
        }
        if self.gpu:
            entry.update(gpuIds=",".join(self.gpu), gpuCount=self.gpu_count)
        for key, value in (
            ("cpu", self.cpu),
            ("imageName", self.image),
            ("is_load_balanced", self.load_balanced),
            ("scalerType", self.scaler_type),
            ("volume", self.volume),
            ("env", dict(self.env)),
            ("dependencies", list(self.dependencies)),
            ("systemDependencies", list(self.system_dependencies)),
        ):
            if value:
                entry[key] = value
        return entry


def check_settings(
    name: object,
    gpu: object,
    cpu: object,
    workers: object,
    idle_timeout: object,
    dependencies: object,
    system_dependencies: object,
    env: object,
    volume: object,
    image: object,
    load_balanced: object,
    gpu_count: object,
    execution_timeout_ms: object,
    scaler_type: object,
    scaler_value: object,
    max_concurrency: object,
) -> Settings:
    """Raises DeclarationError, naming the parameter and the rule."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DeclarationError(
            f"name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit{('' if name is None else f', not {name!r}')}"
        )
    rules = _Rules(name)
    gpus = rules.gpus(gpu)
    kind = rules.text("cpu", cpu)
    if kind and _CPU.fullmatch(kind) is None:
        raise rules.broken("cpu", "must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8", cpu)
    if kind and not _fits_host(kind):
        raise rules.broken("cpu", f"must have at most {_MOST_CPUS} vCPU and {_MOST_MEMORY_GB} GB", cpu)
    if gpus and kind:
        raise rules.broken("gpu", "and cpu are alternatives: give one of them")
    count = rules.integer("gpu_count", gpu_count, 1, 64)
    if count != 1 and not gpus:
        raise rules.broken("gpu_count", "needs gpu")
    least, most = rules.workers(workers)
    timeout = execution_timeout_ms
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not (timeout == 0 or _SHORTEST_TIMEOUT_MS <= timeout <= _LONGEST_TIMEOUT_MS):
        raise rules.broken("execution_timeout_ms", "must be 0 (the service's default) or between 5000 and 604800000 ms", timeout)
    return Settings(
        name=name,
        gpu=gpus,
        gpu_count=count if gpus else 0,
        cpu=kind or "",
        workers_min=least,
        workers_max=most,
        idle_timeout=rules.integer("idle_timeout", idle_timeout, 1, 3600, " s"),
        dependencies=rules.texts("dependencies", dependencies),
        system_dependencies=rules.texts("system_dependencies", system_dependencies),
        env=rules.env(env),
        volume=rules.text("volume", volume),
        image=rules.text("image", image),
        load_balanced=rules.flag("load_balanced", load_balanced),
        execution_timeout_ms=timeout,
        scaler_type=rules.scaler(scaler_type),
        scaler_value=rules.integer("scaler_value", scaler_value, 1, 10_000),
        max_concurrency=rules.integer("max_concurrency", max_concurrency, 1, 1000),
    )


class _Rules:
    """The rules of single parameters; every refusal names the endpoint."""

    def __init__(self, name: str) -> None:
        self._name = name

    def broken(self, parameter: str, rule: str, value: object = None) -> DeclarationError:
        return DeclarationError(f"endpoint {self._name}: {parameter} {rule}{'' if value is None else f', not {value!r}'}")

    def integer(self, parameter: str, value: object, least: int, most: int, unit: str = "") -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.broken(parameter, f"must be an integer between {least} and {most}{unit}", value)
        return value

    def flag(self, parameter: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.broken(parameter, "must be True or False", value)
        return value

    def text(self, parameter: str, value: object) -> Optional[str]:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.broken(parameter, "must be a string that is not empty", value)
        return str(value.value) if isinstance(value, Enum) else value

    def texts(self, parameter: str, value: object) -> Tuple[str, ...]:
        if value is None:
            return ()
        # A string is a sequence of strings, and never meant as one.
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise self.broken(parameter, "must be a list of strings", value)
        for each in value:
            if not isinstance(each, str) or not each.strip():
                raise self.broken(parameter, "must be a list of strings that are not empty", value)
        return tuple(value)

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
        rule = "must be a maximum or (minimum, maximum), integers from 0 to 1000"
        pair = (0, value) if isinstance(value, int) else value
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise self.broken("workers", rule, value)
        for each in pair:
            if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= 1000:
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
                raise self.broken("env", f"has the name {key!r}; a name is letters, digits and underscores")
            # The value may be a secret: only its name is told.
            if not isinstance(each, str):
                raise self.broken("env", f"must hold a string at {key}, not {type(each).__name__}")
            if "\0" in each:
                raise self.broken("env", f"must not contain the character NUL at {key}")
        return dict(value)

    def scaler(self, value: object) -> Optional[str]:
        name = value.value if isinstance(value, Enum) else value
        if name is None:
            return None
        if name not in ("QUEUE_DELAY", "REQUEST_COUNT"):
            raise self.broken("scaler_type", "must be QUEUE_DELAY or REQUEST_COUNT", name)
        return str(name)


def _fits_host(cpu: str) -> bool:
    _generation, cpus, memory = cpu.split("-")
    return int(cpus) <= _MOST_CPUS and int(memory) <= _MOST_MEMORY_GB
