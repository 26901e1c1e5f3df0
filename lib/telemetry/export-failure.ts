/**
 * Says why a receiver did not take spans or log records: from codes, addresses and statuses alone, because messages may hold what the
 * receiver wrote, or a header that was sent to it.
 */

/** Codes of Node and of the system, for example ECONNREFUSED. */
const CODE = /^[A-Z][A-Z\d_]{2,63}$/;
/** A failed connection, as gRPC describes it. */
const CONNECTION = /\bconnect (E[A-Z]{3,}) ([\da-f.:[\]]{2,64}:\d{1,5})\b/;
/** What the libraries say themselves. */
const OWN_WORDS = /^(?:Request timed out|Concurrent export limit reached|Nothing to send|Export failed with retryable status)/i;
/** Causes of causes that are looked at. */
const MAX_DEPTH = 8;

interface Fields {
  readonly code?: unknown;
  readonly address?: unknown;
  readonly port?: unknown;
  readonly hostname?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
  readonly details?: unknown;
  readonly message?: unknown;
}

/** Returns the reason of a failed export, for example `ECONNREFUSED 127.0.0.1:4318` or `HTTP status 503`. */
export function exportFailure(error: unknown, isGrpc: boolean): string {
  const found = chainOf(error);
  const reasons = [connectionOf, systemOf, (each: Fields) => statusOf(each, isGrpc), wordsOf];
  for (const reasonOf of reasons) {
    const reason = found.map(reasonOf).find((each) => each !== undefined);
    if (reason !== undefined) return reason;
  }
  return 'the receiver did not accept them';
}

/** The error, its causes, and the errors that it sums up: one for each address that was tried. */
function chainOf(error: unknown, depth = 0): Fields[] {
  if (typeof error !== 'object' || error === null || depth === MAX_DEPTH) return [];
  const fields: Fields = error;
  const parts: unknown[] = Array.isArray(fields.errors) ? fields.errors.slice(0, MAX_DEPTH) : [];
  return [fields, ...[fields.cause, ...parts].flatMap((each) => chainOf(each, depth + 1))];
}

/** A code together with where it came from. */
function connectionOf({ code, address, port, hostname, details }: Fields): string | undefined {
  const place = typeof address === 'string' ? `${address}:${String(port)}` : typeof hostname === 'string' ? hostname : undefined;
  if (isCode(code) && place !== undefined) return `${code} ${place}`;
  const [, inText, where = ''] = (typeof details === 'string' ? CONNECTION.exec(details) : null) ?? [];
  return inText === undefined ? undefined : `${inText} ${where}`;
}

function systemOf({ code }: Fields): string | undefined {
  return isCode(code) ? code : undefined;
}

function statusOf({ code }: Fields, isGrpc: boolean): string | undefined {
  if (typeof code !== 'number' || !Number.isSafeInteger(code)) return undefined;
  return isGrpc ? `gRPC status ${code}` : `HTTP status ${code}`;
}

function wordsOf({ message }: Fields): string | undefined {
  return typeof message === 'string' ? OWN_WORDS.exec(message)?.[0] : undefined;
}

function isCode(code: unknown): code is string {
  return typeof code === 'string' && CODE.test(code);
}
