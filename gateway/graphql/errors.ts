/** Our errors in GraphQL's shape (docs/api-control-plane.md, GraphQL), without the library: most refusals are said before it is needed. */
import { errorTable, type CapstanError, type ErrorCode } from '../../lib/errors.ts';

export interface GraphqlRefusal {
  readonly message: string;
  /** The code of our table, and what it says besides. */
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
