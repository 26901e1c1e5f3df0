"""The trace context of the job or request that a handler works for (W3C Trace Context)."""
import contextvars
import re
import sys
from contextlib import contextmanager

# `traceparent`, and after a space `tracestate` if there is one; empty without a trace. The SDK reads it.
current = contextvars.ContextVar("capstan_trace", default="")

# Callers send what they like: other values must reach neither the handler nor the calls that it makes.
TRACEPARENT = re.compile("[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
TRACESTATE = re.compile("[a-z0-9][\\x20-\\x7e]{0,511}")


def traceparent_of(trace):
    """Returns the header `traceparent`; None without a trace."""
    return trace.split(" ", 1)[0] or None


@contextmanager
def traced(trace):
    """Within it the trace is the current one, for the SDK and for OpenTelemetry, if the user's code has imported that."""
    # Also without one: a job that was stopped by force may have left its own.
    token = current.set(trace)
    leave = _enter_span(trace) if trace else None
    try:
        yield
    finally:
        if leave is not None:
            leave()
        current.reset(token)


def _enter_span(trace):
    api = sys.modules.get("opentelemetry.trace")
    contexts = sys.modules.get("opentelemetry.context")
    if api is None or contexts is None:
        return lambda: None
    try:
        _version, trace_id, span_id, flags = trace.split(" ", 1)[0].split("-")[:4]
        parent = api.SpanContext(int(trace_id, 16), int(span_id, 16), True, api.TraceFlags(int(flags, 16)))
        token = contexts.attach(api.set_span_in_context(api.NonRecordingSpan(parent)))
    except (AttributeError, TypeError, ValueError):
        # Another module of that name, or a version that this was not written for: the handler must run all the same.
        return lambda: None
    return lambda: contexts.detach(token)


def trace_of(header):
    """Returns the trace of an HTTP request; empty without one."""
    found = {name: value for name, value in header["headers"] if name in ("traceparent", "tracestate")}
    trace, state = found.get("traceparent", ""), found.get("tracestate", "")
    if not TRACEPARENT.fullmatch(trace):
        return ""
    return trace + " " + state if TRACESTATE.fullmatch(state) else trace
