"""What a worker's environment says about where this code runs."""
from __future__ import annotations

import os
from typing import Optional

#: The build's folder while the module is loaded: user code may change the working folder later.
START_FOLDER = os.getcwd()


def endpoint_name() -> Optional[str]:
    """Name of the endpoint whose worker this is; None outside of any worker."""
    return os.environ.get("CAPSTAN_ENDPOINT_NAME") or None


def is_foreign(name: str) -> bool:
    """True in a worker of another endpoint than the one of this name."""
    own = endpoint_name()
    return own is not None and own != name
