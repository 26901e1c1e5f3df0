"""The context of a handler's job."""
from __future__ import annotations

from typing import Any, Dict, Optional, Protocol


class Context(Protocol):
    """
    The parameter ``ctx`` of a handler, or its last one ``context``. In a local call it is whatever the caller
    passes::

        def train(epochs: int, ctx: capstan.Context): ...
    """

    job_id: str
    endpoint_id: str
    #: 1 for the first started attempt.
    attempt: int
    #: As the caller sent it; None without.
    s3_config: Optional[Dict[str, Any]]
    #: W3C trace context of the job, for programs that continue the trace; None without. Calls with this SDK continue it
    #: by themselves.
    traceparent: Optional[str]

    @property
    def stopped(self) -> bool:
        """True once the job is cancelled or timed out; one second later its handler is stopped by force."""

    def progress(self, value: Any) -> None:
        """Reports progress; status calls return the latest value. At most 64 KiB of JSON."""
