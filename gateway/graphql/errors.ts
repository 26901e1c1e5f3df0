/**
 * Capstan's errors in GraphQL's shape (docs/api-control-plane.md, GraphQL), without the library: most refusals occur
 * before it is loaded.
 */
import { errorTable, type CapstanError, type ErrorCode } from '../../lib/errors.ts';

export interface GraphqlRefusal {
  readonly message: string;
  /** The error's code, and its extensions. */
  readonly extensions: {
    readonly code: ErrorCode;
    readonly status: number;
    readonly hint: string;
    readonly field?: string;
    readonly retryAfterMs?: number;
  };
}

export function refusalOf({ code, message, field, retryAfterMs }: CapstanError): GraphqlRefusal {
  return {
    message,
    extensions: {
      code,
      status: errorTable[code].http,
      hint: errorTable[code].hint,
      ...(field === undefined ? {} : { field }),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  };
}
