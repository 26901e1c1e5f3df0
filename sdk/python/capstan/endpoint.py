"""``Endpoint``: one name for what is declared here and for what runs already."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, overload

from .errors import DeclarationError

if TYPE_CHECKING:
    from .client import EndpointClient
    from .declaration import Declaration
    from .retry import RetryPolicy
    from .settings import Gpu, Workers


class Endpoint:
    """
    ``Endpoint("<endpoint_id>")`` or ``Endpoint(id=…)`` is a handle of an endpoint that runs
    (:class:`capstan.client.EndpointClient`); ``Endpoint(name=…)`` declares one
    (:class:`capstan.declaration.Declaration`).
    """

    @overload
    def __new__(
        cls,
        endpoint_id: str,
        *,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        retry: Optional["RetryPolicy"] = None,
        timeout: float = 30.0,
    ) -> "EndpointClient": ...

    @overload
    def __new__(
        cls,
        *,
        id: str,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        retry: Optional["RetryPolicy"] = None,
        timeout: float = 30.0,
    ) -> "EndpointClient": ...

    @overload
    def __new__(
        cls,
        *,
        name: str,
        gpu: "Gpu" = None,
        cpu: Optional[str] = None,
        workers: "Workers" = (0, 1),
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
    ) -> "Declaration": ...

    def __new__(cls, endpoint_id: Optional[str] = None, **settings: Any) -> Any:
        if cls is not Endpoint:
            return object.__new__(cls)
        named = "name" in settings
        if endpoint_id is not None and "id" in settings:
            raise DeclarationError("Endpoint: the id is given twice; Endpoint(%r) is enough" % (endpoint_id,))
        if endpoint_id is None and "id" not in settings:
            if not named:
                raise DeclarationError('Endpoint: give an id, as in Endpoint("<endpoint_id>"), or declare one by Endpoint(name="…")')
            from .declaration import Declaration

            return object.__new__(Declaration)
        if named:
            raise DeclarationError("Endpoint: id and name are alternatives: an id is an endpoint that runs, a name declares one")
        from .client import EndpointClient

        foreign = sorted(set(settings) - {"id", "api_key", "base_url", "retry", "timeout"})
        if foreign:
            raise DeclarationError("Endpoint: %s cannot be set through an id: the endpoint has its settings already" % ", ".join(foreign))
        return object.__new__(EndpointClient)
