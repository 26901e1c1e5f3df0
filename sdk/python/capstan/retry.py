"""Decides when to retry a call: pure functions over a policy."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class RetryPolicy:
    """Pauses double from the first to the longest; a longer Retry-After of the service takes precedence."""

    #: Maximum number of retries; 0 for none.
    retries: int = 5
    #: Seconds.
    first_pause: float = 0.2
    #: Seconds.
    longest_pause: float = 10.0


def is_retryable(status: int) -> bool:
    """True when a retry may succeed: too many requests, or an error of the service."""
    return status == 429 or (status >= 500 and status != 501)


def pause_before(policy: RetryPolicy, attempt: int, retry_after: Optional[float], random: float) -> Optional[float]:
    """
    Returns the pause, in seconds, before retry number ``attempt`` (from 0); None for no retry. ``random`` is in [0, 1).
    """
    if attempt >= policy.retries:
        return None
    full = min(policy.longest_pause, policy.first_pause * 2.0 ** min(attempt, 20))
    # Jitter over the upper half: callers that were rejected together do not retry together.
    pause = full / 2 + full / 2 * random
    return pause if retry_after is None else max(pause, retry_after)


def seconds_of(header: Optional[str]) -> Optional[float]:
    """Parses a Retry-After header in seconds; None when it is absent or has another form."""
    try:
        seconds = float(header or "")
    except ValueError:
        # A date: the service never sends one.
        return None
    return seconds if 0 <= seconds < float("inf") else None
