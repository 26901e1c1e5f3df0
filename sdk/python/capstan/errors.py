"""Errors by cause: an invalid declaration, an error response, no response, a job that did not complete."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Type


class CapstanError(Exception):
    """Base of every error of this package."""


class DeclarationError(CapstanError, ValueError):
    """A declaration breaks a rule; the message names the parameter and the rule."""


class ApiError(CapstanError):
    """The service returned an error that retries do not fix, or that persisted after all retries."""

    #: HTTP status.
    status: int
    #: Fields of the problem document, each None if absent.
    title: Optional[str]
    detail: Optional[str]
    #: Method and path of the failed call.
    call: str
    #: Retry delay requested by the service, seconds, if any.
    retry_after: Optional[float]
    #: Number of attempts.
    attempts: int

    def __init__(
        self,
        call: str,
        status: int,
        title: Optional[str] = None,
        detail: Optional[str] = None,
        retry_after: Optional[float] = None,
        attempts: int = 1,
    ) -> None:
        words = " ".join([str(status)] + ([title] if title else []))
        # The service's detail begins with the title: `not found: job x does not exist`.
        prefix = f"{title.lower()}: " if title else ""
        shown = detail[len(prefix) :] if detail and detail.startswith(prefix) else detail
        super().__init__(f"{call}: {words}{': ' + shown if shown else ''}")
        self.call = call
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_after = retry_after
        self.attempts = attempts


class BadRequest(ApiError):
    """400: a field of the request violates a rule; the detail names it."""


class AuthenticationError(ApiError):
    """401: the API key is missing, unknown, revoked or not allowed to do this."""


class NoApiKey(AuthenticationError):
    """No call was made: there is no API key."""

    def __init__(self) -> None:
        super().__init__("API key", 401)
        self.args = ("no API key: set capstan.api_key or SERVICE_API_KEY, in the environment or in .env of the working folder",)
        self.attempts = 0


class NotFound(ApiError):
    """404: the endpoint or job does not exist, or is already deleted."""


class Conflict(ApiError):
    """409: the job's state does not allow it."""


class PayloadTooLarge(ApiError):
    """413: the input is larger than the service accepts."""


class RateLimited(ApiError):
    """429, after every retry."""


class ServerError(ApiError):
    """An error of the service, after every retry."""


class ConnectionFailed(CapstanError):
    """There was no readable response; ``__cause__`` has the reason."""


class Timeout(CapstanError, TimeoutError):
    """The deadline of the call has passed. A submitted job continues: ``job_id`` identifies it."""

    def __init__(self, message: str, job_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobError(CapstanError):
    """The job ended without a result."""

    #: Final status of the job.
    status: str
    #: The function's own message, if any.
    error: Optional[str]

    def __init__(self, job_id: str, status: str, error: Optional[str] = None, job: Any = None) -> None:
        super().__init__(f"job {job_id} {status}{': ' + error if error else ''}")
        self.job_id = job_id
        self.status = status
        self.error = error
        #: The handle of the job.
        self.job = job


class JobFailed(JobError):
    """The function raised an error, or the job's workers were lost."""


class JobCancelled(JobError):
    """The job was cancelled or purged."""


class JobTimedOut(JobError):
    """The function ran longer than the job's executionTimeout."""


class RemoteError(CapstanError):
    """A function of another endpoint raised an error; the message is its own."""

    def __init__(self, message: str, function: str, endpoint: str, job_id: Optional[str] = None, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.function = function
        self.endpoint = endpoint
        #: The job that ran the function, at a queue-based endpoint.
        self.job_id = job_id
        #: HTTP status of the response, at a load-balanced endpoint.
        self.status = status


class DispatchError(CapstanError):
    """
    A call of another endpoint's function could not be sent; the message names what is missing or the violated rule.
    """


_BY_STATUS: Mapping[int, Type[ApiError]] = {
    400: BadRequest,
    401: AuthenticationError,
    404: NotFound,
    409: Conflict,
    413: PayloadTooLarge,
    429: RateLimited,
}


def api_error_class(status: int) -> Type[ApiError]:
    """Returns the error class for an HTTP status."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)


def job_error(job_id: str, status: str, error: Optional[str], job: Any = None) -> JobError:
    """Returns the error of a job that ended without COMPLETED."""
    kind = {"CANCELLED": JobCancelled, "TIMED_OUT": JobTimedOut}.get(status, JobFailed)
    return kind(job_id, status, error, job)
