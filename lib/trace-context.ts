/**
 * W3C trace context (https://www.w3.org/TR/trace-context/), as it travels with a request or job: one text that holds `traceparent`,
 * and after a space `tracestate` where the caller sent one. The empty text is no context.
 */

export interface TraceParent {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits. */
  readonly spanId: string;
  /** Bit 0: sampled. */
  readonly flags: number;
}

export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Version, trace, parent, flags; a later version may append fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;
const TRACEPARENT_LENGTH = 55;
/** Longest `tracestate` that is passed on; the specification requires 512. */
const MAX_STATE = 512;
/** Members of `tracestate`: printable ASCII, separated by commas. */
const TRACESTATE = /^[a-z\d][\x20-\x7e]*=[\x20-\x7e]*$/;
/** Longest text of a context. */
export const MAX_TRACE = TRACEPARENT_LENGTH + 1 + MAX_STATE;

/** Returns the context of a request's headers; empty when there is none or `traceparent` breaks a rule. */
export function traceOf(traceparent: unknown, tracestate?: unknown): string {
  // A caller without one must cost nothing.
  if (typeof traceparent !== 'string' || traceparent.length > MAX_TRACE) return '';
  const [all, version = '', traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? [];
  if (all === undefined || (version === '00' && all.length !== TRACEPARENT_LENGTH)) return '';
  const head = `00-${traceId}-${spanId}-${flags}`;
  const state = Array.isArray(tracestate) ? tracestate.join(',') : tracestate;
  if (typeof state !== 'string' || state.length > MAX_STATE || !TRACESTATE.test(state)) return head;
  return `${head} ${state.trimEnd()}`;
}

/** Returns a context of another part; empty when it is not one. */
export function checkedTrace(trace: string): string {
  if (trace === '') return '';
  const { traceparent, tracestate } = traceHeaders(trace);
  return traceOf(traceparent, tracestate);
}

/** Returns the headers of a context that is not empty. */
export function traceHeaders(trace: string): TraceHeaders {
  const end = trace.indexOf(' ');
  return end < 0 ? { traceparent: trace } : { traceparent: trace.slice(0, end), tracestate: trace.slice(end + 1) };
}

/** Returns the parts of a context that is not empty. */
export function traceParent(trace: string): TraceParent {
  return { traceId: trace.slice(3, 35), spanId: trace.slice(36, 52), flags: Number.parseInt(trace.slice(53, 55), 16) };
}

/** Returns the context below another span of the same trace; what vendors added stays. */
export function traceBelow(trace: string, { traceId, spanId, flags }: TraceParent): string {
  const head = `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
  return trace.length > TRACEPARENT_LENGTH && trace.startsWith(traceId, 3) ? head + trace.slice(TRACEPARENT_LENGTH) : head;
}

/** Whether the context says that its trace is not recorded. */
export function isUnsampled(trace: string): boolean {
  // The lowest bit of the flags' last digit.
  return trace !== '' && (Number.parseInt(trace.charAt(TRACEPARENT_LENGTH - 1), 16) & 1) === 0;
}

/** Returns the trace's id if the trace is recorded, for links to it; else undefined. */
export function sampledTraceId(trace: string): string | undefined {
  if (trace === '') return undefined;
  const { traceId, flags } = traceParent(trace);
  return (flags & 1) === 1 ? traceId : undefined;
}
