"""``Endpoint``: one name for handles of deployed endpoints and for declarations."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union, overload

from . import registry
from .client import EndpointClient
from .declaration import Declaration
from .errors import DeclarationError
from .retry import RetryPolicy
from .settings import Parameters

if TYPE_CHECKING:
    # Type checkers know it; Python 3.8 does not.
    from typing_extensions import Unpack

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
def Endpoint(**settings: Unpack[Parameters]) -> Declaration: ...


def Endpoint(endpoint_id: Optional[str] = None, **settings: Any) -> Union[EndpointClient, Declaration]:
    """
    Returns a client of a deployed endpoint for ``Endpoint("<endpoint_id>")`` or ``Endpoint(id=…)``, and a declaration
    for ``Endpoint(name=…)``. Raises DeclarationError when the arguments are neither.
    """
    named = "name" in settings
    if endpoint_id is not None and "id" in settings:
        raise DeclarationError(f"Endpoint: the id is given twice; use Endpoint({endpoint_id!r})")
    if endpoint_id is None and "id" not in settings:
        if not named:
            raise DeclarationError('Endpoint: requires an id, Endpoint("<endpoint_id>"), or a name to declare one, Endpoint(name="…")')
        declared = Declaration(**settings, _caller=1)
        registry.add(declared)
        return declared
    if named:
        raise DeclarationError("Endpoint: id and name are mutually exclusive: an id refers to a deployed endpoint, a name declares one")
    foreign = sorted(set(settings) - _CLIENT_ARGUMENTS)
    if foreign:
        raise DeclarationError(f"Endpoint: {', '.join(foreign)} must be omitted when an id is given: a deployed endpoint already has its settings")
    return EndpointClient(endpoint_id, **settings)
