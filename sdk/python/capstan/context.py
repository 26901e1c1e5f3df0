"""What a handler may ask about its job."""
from __future__ import annotations

from typing import Any, Dict, Optional, Protocol


class Context(Protocol):
    """
    The last parameter of a handler, when it is called ``ctx`` or ``context``. Locally it is whatever the caller passes::

        def train(epochs: int, ctx: capstan.Context): ...
    """

    job_id: str
    endpoint_id: str
    #: 1 for the first started attempt.
    attempt: int
    #: As the caller sent it; None without.
    s3_config: Optional[Dict[str, Any]]

    @property
    def stopped(self) -> bool:
        """True once the job is cancelled or out of time; a second later its handler is stopped by force."""

    def progress(self, value: Any) -> None:
        """Tells how far the job is; status calls show the last value. At most 64 KiB of JSON."""
