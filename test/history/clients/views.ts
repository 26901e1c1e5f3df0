/** What the checker needs of documents that clients and receivers get: padding is compared here, and left out of the history. */
import type { JobView, Made } from '../core/record.ts';

interface Raw {
  readonly id?: unknown;
  readonly status?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
  readonly retries?: unknown;
  readonly [other: string]: unknown;
}

/** An input names the size of the padding that its output has: `<name>#<bytes>`. */
export function inputOf(name: string, bytes: number): string {
  return `${name}#${bytes}`;
}

/** A job's document. Members that only a webhook has are left out. */
export function jobView(raw: Raw): JobView {
  const { id, status, output, error, retries, input: _input, webhook: _webhook, ...rest } = raw;
  return {
    id: String(id),
    status: String(status),
    ...(output === undefined || output === null ? {} : { output: Array.isArray(output) ? output.map(madeView) : madeView(output) }),
    ...(error === undefined ? {} : { error: typeof error === 'string' ? error : JSON.stringify(error) }),
    ...(typeof retries === 'number' ? { retries } : {}),
    rest: JSON.stringify(rest, Object.keys(rest).toSorted()),
  };
}

export function madeView(raw: unknown): Made {
  if (typeof raw !== 'object' || raw === null) return { execution: '', input: JSON.stringify(raw), intact: false };
  const { execution, input, index, pad } = raw as { execution?: unknown; input?: unknown; index?: unknown; pad?: unknown };
  const name = String(input);
  return {
    execution: String(execution),
    input: name,
    ...(typeof index === 'number' ? { index } : {}),
    intact: pad === padding(name),
  };
}

/** As the handlers pad. */
function padding(input: string): string {
  const bytes = Number(input.slice(input.lastIndexOf('#') + 1));
  return `${input} `.repeat(Math.ceil(bytes / (input.length + 1))).slice(0, bytes);
}
