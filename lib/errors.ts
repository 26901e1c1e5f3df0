/**
 * The closed table of error codes. Every error that crosses a border (gRPC, HTTP, the CLI's exit code) has one of these
 * codes; the mapping is defined once, here.
 */

/** Representation of a code at each border. */
export interface ErrorEntry {
  /** gRPC status code (google.rpc.Code). */
  readonly grpc: number;
  readonly http: number;
  /** Exit code of the CLI; 2 is an error of the caller, 69 and above follow sysexits.h. */
  readonly exit: number;
  /** Title of the problem document, the HTTP reason phrase. */
  readonly title: string;
  /** What the caller can do about it. */
  readonly hint: string;
}

const table = {
  INVALID_ARGUMENT: { grpc: 3, http: 400, exit: 2, title: 'Bad Request', hint: 'Correct the named field and send the request again.' },
  UNAUTHENTICATED: {
    grpc: 16,
    http: 401,
    exit: 77,
    title: 'Unauthorized',
    hint: 'Send a valid key in the header Authorization: Bearer <API_KEY>.',
  },
  PERMISSION_DENIED: { grpc: 7, http: 401, exit: 77, title: 'Unauthorized', hint: 'Use a key whose scope covers this call.' },
  NOT_FOUND: {
    grpc: 5,
    http: 404,
    exit: 66,
    title: 'Not Found',
    hint: 'Check the id. Jobs are deleted when their retention ends.',
  },
  METHOD_NOT_ALLOWED: { grpc: 12, http: 405, exit: 2, title: 'Method Not Allowed', hint: 'Use one of the methods in the Allow header.' },
  CONFLICT: { grpc: 9, http: 409, exit: 75, title: 'Conflict', hint: 'The current state does not allow this. Read the state first.' },
  ALREADY_EXISTS: { grpc: 6, http: 409, exit: 73, title: 'Conflict', hint: 'Choose another name or key.' },
  IDEMPOTENCY_MISMATCH: {
    grpc: 6,
    http: 409,
    exit: 2,
    title: 'Conflict',
    hint: 'This Idempotency-Key was used with a different body. Use a new key.',
  },
  REQUEST_TIMEOUT: {
    grpc: 4,
    http: 408,
    exit: 75,
    title: 'Request Timeout',
    hint: 'Send the whole body without long pauses. On a slow connection, send less at a time.',
  },
  IDEMPOTENCY_EXPIRED: {
    grpc: 6,
    http: 409,
    exit: 2,
    title: 'Conflict',
    hint: 'The job of this Idempotency-Key is deleted. Use a new key to run it again.',
  },
  PAYLOAD_TOO_LARGE: {
    grpc: 11,
    http: 413,
    exit: 2,
    title: 'Payload Too Large',
    hint: 'Send less, or put the data into object storage and send its URL.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    grpc: 3,
    http: 415,
    exit: 2,
    title: 'Unsupported Media Type',
    hint: 'Send JSON with Content-Type: application/json.',
  },
  RATE_LIMITED: {
    grpc: 8,
    http: 429,
    exit: 75,
    title: 'Too Many Requests',
    hint: 'Retry after the time in Retry-After, with exponential backoff.',
  },
  QUOTA_EXCEEDED: {
    grpc: 8,
    http: 409,
    exit: 73,
    title: 'Conflict',
    hint: 'Free some of the quota, or ask an operator to raise it: capstan account set.',
  },
  UNAVAILABLE: { grpc: 14, http: 503, exit: 69, title: 'Service Unavailable', hint: 'Try again shortly.' },
  NOT_OWNER: {
    grpc: 14,
    http: 503,
    exit: 69,
    title: 'Service Unavailable',
    hint: 'This scheduler does not own the queue of that cell: send the call to its owner (`capstan-owner` in the trailing metadata), or try the other schedulers.',
  },
  DISK_FULL: {
    grpc: 8,
    http: 503,
    exit: 69,
    title: 'Service Unavailable',
    hint: 'Free space on the disk of the data folder, or wait until ended jobs are deleted.',
  },
  DEADLINE_EXCEEDED: { grpc: 4, http: 503, exit: 69, title: 'Service Unavailable', hint: 'Try again shortly.' },
  WORKER_LOST: {
    grpc: 14,
    http: 500,
    exit: 69,
    title: 'Internal Server Error',
    hint: 'The worker ended or did not respond in time; see its log. Send the request again if it is safe to run twice.',
  },
  NODE_LOST: {
    grpc: 14,
    http: 500,
    exit: 69,
    title: 'Internal Server Error',
    hint: 'The gateway lost its connection to the worker. Send the request again if it is safe to run twice.',
  },
  INTERNAL: {
    grpc: 13,
    http: 500,
    exit: 70,
    title: 'Internal Server Error',
    hint: 'This is a bug in the service; its log has the details.',
  },
  PAYLOAD_DAMAGED: {
    grpc: 15,
    http: 500,
    exit: 74,
    title: 'Internal Server Error',
    hint: 'Submit the job again. The operator should check the disk or the bucket of the store, and restore a backup if more is damaged.',
  },
  CONFIG: { grpc: 9, http: 500, exit: 78, title: 'Internal Server Error', hint: 'Correct the configuration.' },
  ADDRESS_IN_USE: { grpc: 14, http: 503, exit: 69, title: 'Service Unavailable', hint: 'Stop the other program, or choose another port.' },
  DATA_DIR: { grpc: 9, http: 500, exit: 74, title: 'Internal Server Error', hint: 'Check the data folder and its permissions.' },
  // Its own exit code: service managers must not start again what somebody has to look at first.
  DATA_LOST: {
    grpc: 9,
    http: 500,
    exit: 79,
    title: 'Internal Server Error',
    hint: 'Restore the data folder from a backup (`capstan backup`; docs/backup.md), or use an empty folder to start over.',
  },
  DATA_NEWER: {
    grpc: 9,
    http: 500,
    exit: 74,
    title: 'Internal Server Error',
    hint: 'Use the version of Capstan that wrote the data folder, or a newer one.',
  },
  BUILD_DAMAGED: {
    grpc: 15,
    http: 500,
    exit: 65,
    title: 'Internal Server Error',
    hint: 'Deploy its folder again: that replaces the build. The operator should check the disk or the bucket of the artifact store.',
  },
  INVALID_MANIFEST: { grpc: 3, http: 400, exit: 65, title: 'Bad Request', hint: 'Correct tool_manifest.json.' },
  INVALID_ARCHIVE: { grpc: 3, http: 400, exit: 65, title: 'Bad Request', hint: 'Build the artifact again.' },
  OLD_NODE: { grpc: 9, http: 500, exit: 78, title: 'Internal Server Error', hint: 'Install Node.js 22.18 or newer (24 is recommended).' },
  NODE_REMOVED: {
    grpc: 16,
    http: 401,
    exit: 77,
    title: 'Unauthorized',
    hint: 'To let this host join again, remove agent/node.json from its data folder, give it a join token, and start its agent (or `capstan up`) again.',
  },
} as const satisfies Record<string, ErrorEntry>;

/** One of the closed set of error codes. */
export type ErrorCode = keyof typeof table;

/** The table, for documentation and tests. */
export const errorTable: Readonly<Record<ErrorCode, ErrorEntry>> = table;

/** Facts besides the message that a border passes on. */
export interface ErrorDetails {
  /** The input field at fault, as the caller wrote it. */
  readonly field?: string;
  /** Delay after which a retry may succeed, ms. */
  readonly retryAfterMs?: number;
  /** The job concerned, if the caller did not name it. */
  readonly jobId?: string;
  /** Address of the scheduler that owns the queue, `host:port`, where it is known. */
  readonly owner?: string;
  /** Name of the cell that the node was moved to, which presented its credentials. */
  readonly cell?: string;
  readonly cause?: unknown;
}

/** The project's only error class: a refusal or failure with a code. */
export class CapstanError extends Error {
  readonly code: ErrorCode;
  readonly field: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly jobId: string | undefined;
  readonly owner: string | undefined;
  readonly cell: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'CapstanError';
    this.code = code;
    this.field = details.field;
    this.retryAfterMs = details.retryAfterMs;
    this.jobId = details.jobId;
    this.owner = details.owner;
    this.cell = details.cell;
  }
}

/** True when `text` is a code of the table (a newer peer may send others). */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(table, text);
}

/** Returns the code for the HTTP status of a response that has no code. */
export function codeOfStatus(status: number): ErrorCode {
  const code = Object.entries(table).find(([, { http }]) => http === status)?.[0];
  return code !== undefined && isErrorCode(code) ? code : 'INTERNAL';
}

/** Returns Retry-After of an HTTP response, seconds; null for errors that a retry does not fix. */
export function retryAfterS({ code, retryAfterMs = 1000 }: CapstanError): number | null {
  const { http } = table[code];
  return http === 429 || http === 503 ? Math.max(1, Math.ceil(retryAfterMs / 1000)) : null;
}

/** For the default branch of an exhaustive switch: the compiler proves that it is unreachable. */
export function assertNever(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
