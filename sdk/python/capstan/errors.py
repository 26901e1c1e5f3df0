"""What can go wrong, by consequence: a declaration is wrong, the service refused, it was not reached, the job did not complete."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Type


class CapstanError(Exception):
    """Base of every error of this package."""


class DeclarationError(CapstanError, ValueError):
    """A declaration breaks a rule; the message names the parameter and the rule."""


class ApiError(CapstanError):
    """The service refused a call; trying the same again will not help, or was tried often enough."""

    #: HTTP status.
    status: int
    #: The service's own words, each None when it gave none.
    title: Optional[str]
    detail: Optional[str]
    #: Method and path of the refused call.
    call: str
    #: Seconds the service asks to wait, when it said so.
    retry_after: Optional[float]
    #: How often the call was made.
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
        super().__init__(f"{call}: {words}{': ' + detail if detail else ''}")
        self.call = call
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_after = retry_after
        self.attempts = attempts


class BadRequest(ApiError):
    """400: a field of the request breaks a rule; the detail names it."""


class AuthenticationError(ApiError):
    """401: the API key is missing, unknown or revoked, or may not do this."""


class NoApiKey(AuthenticationError):
    """No call was made: there is no API key to make it with."""

    def __init__(self) -> None:
        super().__init__("API key", 401)
        self.args = ("no API key: set capstan.api_key or SERVICE_API_KEY, in the environment or in .env of the working folder",)
        self.attempts = 0


class NotFound(ApiError):
    """404: no such endpoint or job (any more)."""


class Conflict(ApiError):
    """409: the job's state forbids it."""


class PayloadTooLarge(ApiError):
    """413: the input is larger than the service takes."""


class RateLimited(ApiError):
    """429, after every retry."""


class ServerError(ApiError):
    """A fault on the service's side, after every retry."""


class ConnectionFailed(CapstanError):
    """No answer came, or none that could be read; ``__cause__`` says why."""


class Timeout(CapstanError, TimeoutError):
    """The time given to the call is over. A job that was submitted runs on: ``job_id`` tells which."""

    def __init__(self, message: str, job_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobError(CapstanError):
    """The job ended without a result."""

    #: Status the job ended with.
    status: str
    #: The function's own message, when there is one.
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
        #: The job that ran it, of a queue-based endpoint.
        self.job_id = job_id
        #: HTTP status of a load-balanced endpoint's answer.
        self.status = status


class DispatchError(CapstanError):
    """A call of another endpoint's function could not be sent: what is missing, or which rule the call breaks."""


_BY_STATUS: Mapping[int, Type[ApiError]] = {
    400: BadRequest,
    401: AuthenticationError,
    404: NotFound,
    409: Conflict,
    413: PayloadTooLarge,
    429: RateLimited,
}


def api_error_class(status: int) -> Type[ApiError]:
    """The class of error that an HTTP status means."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)


def job_error(job_id: str, status: str, error: Optional[str], job: Any = None) -> JobError:
    """The error that a job's end other than COMPLETED means."""
    kind = {"CANCELLED": JobCancelled, "TIMED_OUT": JobTimedOut}.get(status, JobFailed)
    return kind(job_id, status, error, job)
