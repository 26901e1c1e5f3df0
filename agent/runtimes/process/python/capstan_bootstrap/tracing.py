"""The trace context of the job or request that a handler works for (W3C Trace Context)."""
import contextvars
import sys
from contextlib import contextmanager

# `traceparent`, and after a space `tracestate` if there is one; empty without a trace. The SDK reads it.
current = contextvars.ContextVar("capstan_trace", default="")


def traceparent_of(trace):
    """Returns the header `traceparent`; None without a trace."""
    return trace.split(" ", 1)[0] or None


@contextmanager
def traced(trace):
    """Within it the trace is the current one, for the SDK and for OpenTelemetry, if the user's code has imported that."""
    if not trace:
        yield
        return
    token = current.set(trace)
    leave = _enter_span(trace)
    try:
        yield
    finally:
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
    return " ".join(found[name] for name in ("traceparent", "tracestate") if name in found) if "traceparent" in found else ""
