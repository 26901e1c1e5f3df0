"""Resolves the API key and the URL of calls."""
from __future__ import annotations

import os
import re
import sys
from typing import Optional
from urllib.parse import urlsplit

from .dot_env import dot_env_variable
from .errors import DeclarationError, NoApiKey
from .exchange import Connection
from .retry import RetryPolicy

DEFAULT_URL = "http://127.0.0.1:8080"


def base_url(given: Optional[str] = None) -> str:
    """
    Returns the given URL, else ``capstan.base_url``, else CAPSTAN_URL, else that of a service on this host; without a
    trailing slash. Raises DeclarationError for an invalid URL.
    """
    package = sys.modules[__package__]
    chosen = given or getattr(package, "base_url", None) or os.environ.get("CAPSTAN_URL") or DEFAULT_URL
    if urlsplit(str(chosen)).scheme not in ("http", "https"):
        raise DeclarationError(f"base_url must start with http:// or https://, not {chosen!r}")
    return str(chosen).rstrip("/")


def connection_of(api_key: Optional[str], url: Optional[str], retry: Optional[RetryPolicy], timeout: float) -> Connection:
    """
    Returns the connection. The key is the given one, else ``capstan.api_key``, else SERVICE_API_KEY, else that of the
    current worker, else SERVICE_API_KEY of ``.env`` in the working folder. Raises NoApiKey without one.
    """
    package = sys.modules[__package__]
    key = (
        api_key
        or getattr(package, "api_key", None)
        or os.environ.get("SERVICE_API_KEY")
        or os.environ.get("CAPSTAN_WORKER_TOKEN")
        or dot_env_variable("SERVICE_API_KEY")
    )
    if not key:
        raise NoApiKey()
    # Checked here, because the HTTP library's own error would contain the key.
    if re.fullmatch(r"[!-~]+", str(key).strip()) is None:
        raise DeclarationError("the API key must be printable ASCII without spaces")
    return Connection(base_url=base_url(url), api_key=str(key).strip(), retry=retry or RetryPolicy(), timeout=timeout)
