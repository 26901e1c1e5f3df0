"""
Capstan's Python SDK: declares endpoints, and calls them.

    import capstan

    capstan.api_key = "cap_…"                       # else SERVICE_API_KEY, also in .env
    capstan.base_url = "https://capstan.example"    # else CAPSTAN_URL

    endpoint = capstan.Endpoint("<endpoint_id>")
    endpoint.run_sync({"text": "hello"})

    @capstan.Endpoint(name="embed", gpu=capstan.GpuGroup.ANY, workers=(0, 3))
    def embed(text: str): ...
"""
from __future__ import annotations

from typing import Optional

from . import aio as aio
from . import remote as remote
from .client import EndpointClient, Job
from .context import Context
from .declaration import Declaration
from .endpoint import Endpoint
from .errors import (
    ApiError,
    AuthenticationError,
    BadRequest,
    CapstanError,
    Conflict,
    ConnectionFailed,
    DeclarationError,
    DispatchError,
    JobCancelled,
    JobError,
    JobFailed,
    JobTimedOut,
    NoApiKey,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    RemoteError,
    ServerError,
    Timeout,
)
from .functions import FunctionDeclaration
from .former_names import CpuInstanceType, CudaVersion, DataCenter, GpuType, NetworkVolume, ServerlessScalerType
from .gpus import GpuGroup, ScalerType
from .jobs import Snapshot
from .registry import check_application, declarations, forget
from .retry import RetryPolicy
from .secret import Secret

__version__ = "0.2.0"

#: The API key of every call; None: SERVICE_API_KEY of the environment, otherwise of ``.env`` in the working folder.
api_key: Optional[str] = None
#: URL of the service; None: CAPSTAN_URL.
base_url: Optional[str] = None

AsyncEndpoint = aio.Endpoint

__all__ = [
    "ApiError",
    "AsyncEndpoint",
    "AuthenticationError",
    "BadRequest",
    "CapstanError",
    "Conflict",
    "ConnectionFailed",
    "Context",
    "CpuInstanceType",
    "CudaVersion",
    "DataCenter",
    "Declaration",
    "DeclarationError",
    "DispatchError",
    "Endpoint",
    "EndpointClient",
    "FunctionDeclaration",
    "GpuGroup",
    "GpuType",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobTimedOut",
    "NetworkVolume",
    "NoApiKey",
    "NotFound",
    "PayloadTooLarge",
    "RateLimited",
    "RemoteError",
    "RetryPolicy",
    "ScalerType",
    "Secret",
    "ServerError",
    "ServerlessScalerType",
    "Snapshot",
    "Timeout",
    "aio",
    "api_key",
    "base_url",
    "check_application",
    "declarations",
    "forget",
    "remote",
]
