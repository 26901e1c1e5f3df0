"""``Endpoint``: the one name for declaring an endpoint and for calling one that is deployed."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union, overload

from . import registry
from .client import EndpointClient
from .declaration import Declaration
from .errors import DeclarationError
from .retry import RetryPolicy
from .settings import Gpu, Workers

#: Arguments of :class:`EndpointClient`.
_CLIENT_ARGUMENTS = frozenset(("id", "api_key", "base_url", "retry", "timeout"))


@overload
def Endpoint(
    endpoint_id: str,
    *,
    api_key: Optional[str] = None,
    base_url: Optional[str] = None,
    retry: Optional[RetryPolicy] = None,
    timeout: float = 30.0,
) -> EndpointClient: ...


@overload
def Endpoint(
    *,
    id: str,
    api_key: Optional[str] = None,
    base_url: Optional[str] = None,
    retry: Optional[RetryPolicy] = None,
    timeout: float = 30.0,
) -> EndpointClient: ...


@overload
def Endpoint(
    *,
    name: str,
    gpu: Gpu = None,
    cpu: Optional[str] = None,
    workers: Workers = (0, 1),
    idle_timeout: int = 60,
    dependencies: Sequence[str] = (),
    system_dependencies: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
    volume: Optional[str] = None,
    image: Optional[str] = None,
    load_balanced: bool = False,
    gpu_count: int = 1,
    execution_timeout_ms: int = 0,
    scaler_type: Optional[str] = None,
    scaler_value: int = 4,
    max_concurrency: int = 1,
) -> Declaration: ...


def Endpoint(endpoint_id: Optional[str] = None, **settings: Any) -> Union[EndpointClient, Declaration]:
    """
    Returns a client of a deployed endpoint for ``Endpoint("<endpoint_id>")`` or ``Endpoint(id=…)``, and a declaration
    for ``Endpoint(name=…)``. Raises DeclarationError when the arguments are neither.
    """
    named = "name" in settings
    if endpoint_id is not None and "id" in settings:
        raise DeclarationError(f"Endpoint: the id is given twice; Endpoint({endpoint_id!r}) is enough")
    if endpoint_id is None and "id" not in settings:
        if not named:
            raise DeclarationError('Endpoint: give an id, as in Endpoint("<endpoint_id>"), or declare one by Endpoint(name="…")')
        declared = Declaration(**settings, _caller=1)
        registry.add(declared)
        return declared
    if named:
        raise DeclarationError("Endpoint: id and name are alternatives: an id is an endpoint that runs, a name declares one")
    foreign = sorted(set(settings) - _CLIENT_ARGUMENTS)
    if foreign:
        raise DeclarationError(f"Endpoint: {', '.join(foreign)} cannot be set through an id: the endpoint has its settings already")
    return EndpointClient(endpoint_id, **settings)
