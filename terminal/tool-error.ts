/** An error with its own hint instead of that of its code. */
import { CapstanError, errorTable, type ErrorCode, type ErrorDetails } from '../lib/errors.ts';
import { errnoOf, messageOf } from '../lib/to-error.ts';
import { SYSTEM_ERRORS } from '../lib/system-errors.ts';

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

/** Hints for a shell; those of the table are for callers of the API. */
const shellHints: Partial<Record<ErrorCode, string>> = {
  INVALID_ARGUMENT: 'Correct it and run the command again; --help describes its arguments and options.',
  QUOTA_EXCEEDED: 'Reduce the usage (capstan account get shows it), or have an operator raise the quota: capstan account set <account>.',
  CONFLICT: 'Not possible in the current state.',
  ADDRESS_IN_USE: 'Stop the other program, or use other ports: --http-port and --grpc-port (capstan run: --port; npm start: after --).',
  NOT_FOUND: 'Check the id or name. Jobs are deleted when their retention ends.',
};

const REMEDY = /^(.*)\. (An operator raises it with: capstan account set .*)$/s;

/** Returns the message, the hint and the exit code of any thrown value (the table of lib/errors.ts). */
export function explain(thrown: unknown): Explanation {
  if (thrown instanceof CapstanError) {
    const entry = errorTable[thrown.code];
    const hint = thrown instanceof ToolError ? thrown.hint : (shellHints[thrown.code] ?? entry.hint);
    // The service names the command that raises a quota: it is the hint.
    const [, message = thrown.message, remedy = hint] = REMEDY.exec(thrown.message) ?? [];
    return { message, hint: remedy, exitCode: entry.exit };
  }
  const refusal = systemRefusal(thrown);
  if (refusal !== null) return refusal;
  const message = messageOf(thrown);
  return {
    message: `internal error: ${message}`,
    hint: 'This is a bug in Capstan; set CAPSTAN_DEBUG=1 to print the stack.',
    exitCode: errorTable.INTERNAL.exit,
  };
}

const systemWords: Readonly<Record<string, readonly [what: string, hint: string]>> = {
  EACCES: [SYSTEM_ERRORS.EACCES, 'Change the permissions, or run the command as a user who has them.'],
  EPERM: [SYSTEM_ERRORS.EPERM, 'Change the permissions, or run the command as a user who has them.'],
  EROFS: [SYSTEM_ERRORS.EROFS, 'Use a folder that is writable.'],
  ENOSPC: [SYSTEM_ERRORS.ENOSPC, 'Free space on that disk.'],
  EDQUOT: [SYSTEM_ERRORS.EDQUOT, 'Free space on that disk.'],
};

/** Explains an error of the file system, with its path; null for any other error. */
function systemRefusal(thrown: unknown): Explanation | null {
  if (!(thrown instanceof Error) || !('path' in thrown) || typeof thrown.path !== 'string') return null;
  const code = errnoOf(thrown) ?? '';
  const words = systemWords[code];
  return words === undefined
    ? null
    : { message: `${thrown.path}: ${words[0]} (${code})`, hint: words[1], exitCode: errorTable.DATA_DIR.exit };
}
