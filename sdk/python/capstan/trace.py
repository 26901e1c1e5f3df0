"""
The trace that a call continues (W3C Trace Context): of the current span of OpenTelemetry, if the program has imported it;
in a worker of the job or request that the handler works for.
"""
from __future__ import annotations

import sys
from typing import Any, Dict


def current_trace_headers() -> Dict[str, str]:
    """Returns the headers that let a call continue the current trace; none without one."""
    return _of_span() or _of_worker()


def _of_span() -> Dict[str, str]:
    api: Any = sys.modules.get("opentelemetry.trace")
    try:
        context = api.get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"}
        state = context.trace_state.to_header()
    except AttributeError:
        # It was not imported, or is something else.
        return {}
    if state:
        headers["tracestate"] = state
    return headers


def _of_worker() -> Dict[str, str]:
    worker: Any = sys.modules.get("capstan_bootstrap.tracing")
    trace: str = "" if worker is None else worker.current.get()
    return dict(zip(("traceparent", "tracestate"), trace.split(" ", 1))) if trace else {}
