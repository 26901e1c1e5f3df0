"""Reads from a worker's environment where this code runs."""
from __future__ import annotations

import os
from typing import Optional

#: The build's folder while its module is loaded; user code may change the working folder later.
START_FOLDER = os.getcwd()


def endpoint_name() -> Optional[str]:
    """Returns the name of the worker's endpoint; None outside of a worker."""
    return os.environ.get("CAPSTAN_ENDPOINT_NAME") or None


def is_foreign(name: str) -> bool:
    """True in a worker of an endpoint with another name."""
    own = endpoint_name()
    return own is not None and own != name
