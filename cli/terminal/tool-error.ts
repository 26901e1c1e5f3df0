/** A refusal whose hint says more than that of its code. */
import { CapstanError, errorTable, type ErrorCode, type ErrorDetails } from '../../lib/errors.ts';
import { errnoOf, messageOf } from '../../lib/to-error.ts';

export class ToolError extends CapstanError {
  readonly hint: string;

  constructor(code: ErrorCode, message: string, hint: string, details: ErrorDetails = {}) {
    super(code, message, details);
    this.hint = hint;
  }
}

export interface Explanation {
  readonly message: string;
  readonly hint: string;
  readonly exitCode: number;
}

/** Where the table's hint speaks to a caller of the API, what helps at a shell. */
const shellHints: Partial<Record<ErrorCode, string>> = {
  INVALID_ARGUMENT: 'Correct it and run the command again; with --help it says what it takes.',
  QUOTA_EXCEEDED:
    'Free what the quota counts (capstan account shows it), or let an operator raise it (capstan account quota <account> --help).',
  CONFLICT: 'What is there now forbids it; look at that first.',
  ADDRESS_IN_USE:
    'Stop the other program, or choose other ports with --http-port and --grpc-port (--port of capstan run; after npm start they stand behind --).',
  NOT_FOUND: 'Check the id or name; ended jobs are forgotten when their retention is over.',
};

/** What to tell people about anything thrown, and the exit code (the table of lib/errors.ts). */
export function explain(thrown: unknown): Explanation {
  if (thrown instanceof CapstanError) {
    const entry = errorTable[thrown.code];
    const hint = thrown instanceof ToolError ? thrown.hint : (shellHints[thrown.code] ?? entry.hint);
    return { message: thrown.message, hint, exitCode: entry.exit };
  }
  const refusal = systemRefusal(thrown);
  if (refusal !== null) return refusal;
  const message = messageOf(thrown);
  return {
    message: `internal error: ${message}`,
    hint: 'This is a fault of Capstan; CAPSTAN_DEBUG=1 shows where.',
    exitCode: errorTable.INTERNAL.exit,
  };
}

const systemWords: Readonly<Record<string, readonly [what: string, hint: string]>> = {
  EACCES: ['permission denied', 'Change the permissions there, or work as a user who has them.'],
  EPERM: ['operation not permitted', 'Change the permissions there, or work as a user who has them.'],
  EROFS: ['the file system is read-only', 'Work in a folder that can be written.'],
  ENOSPC: ['the disk is full', 'Make room on that disk.'],
  EDQUOT: ['the disk quota is used up', 'Make room on that disk.'],
};

/** A file or folder that the system does not let be used: no fault of ours, wherever it was met. */
function systemRefusal(thrown: unknown): Explanation | null {
  if (!(thrown instanceof Error) || !('path' in thrown) || typeof thrown.path !== 'string') return null;
  const code = errnoOf(thrown) ?? '';
  const words = systemWords[code];
  return words === undefined
    ? null
    : { message: `${thrown.path}: ${words[0]} (${code})`, hint: words[1], exitCode: errorTable.DATA_DIR.exit };
}
