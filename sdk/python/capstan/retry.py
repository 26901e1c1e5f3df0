"""When a call is tried again, as pure functions over a policy."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class RetryPolicy:
    """Pauses double from the first to the longest; a longer Retry-After of the service is kept to."""

    #: Tries after the first; 0 for none.
    retries: int = 5
    #: Seconds.
    first_pause: float = 0.2
    #: Seconds.
    longest_pause: float = 10.0


def is_retryable(status: int) -> bool:
    """True when another try may succeed: too many requests, or a fault on the service's side."""
    return status == 429 or (status >= 500 and status != 501)


def pause_before(policy: RetryPolicy, attempt: int, retry_after: Optional[float], random: float) -> Optional[float]:
    """The pause, in seconds, after try number ``attempt`` (from 0); None when there shall be no other. ``random`` is in [0, 1)."""
    if attempt >= policy.retries:
        return None
    full = min(policy.longest_pause, policy.first_pause * 2.0 ** min(attempt, 20))
    # Jitter over the upper half: callers that were refused together do not come back together.
    pause = full / 2 + full / 2 * random
    return pause if retry_after is None else max(pause, retry_after)


def seconds_of(header: Optional[str]) -> Optional[float]:
    """A Retry-After header in seconds; None when there is none that says so."""
    try:
        seconds = float(header or "")
    except ValueError:
        # A date: the service never sends one.
        return None
    return seconds if 0 <= seconds < float("inf") else None
