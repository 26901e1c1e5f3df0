/** The commit that a deployment was made of, as the machine with the checkout says. Pure. */
import { visibleLine } from './visible-text.ts';

export interface SourceRevision {
  /** Hexadecimal digits. */
  readonly commit: string;
  /** The first line of its message. */
  readonly message: string;
  /** Files of the project differ from the commit. */
  readonly isDirty: boolean;
}

/** Characters. */
export const MAX_SOURCE_MESSAGE = 200;
const COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Returns a message as it is recorded: one line, without control characters, not too long. */
export function sourceMessage(text: string): string {
  const line = visibleLine(text.toWellFormed().split('\n', 1)[0] ?? '').trim();
  return line.length > MAX_SOURCE_MESSAGE ? `${line.slice(0, MAX_SOURCE_MESSAGE - 1).toWellFormed()}…` : line;
}

/** Returns the field that breaks its rule; null for none. */
export function sourceViolation({ commit, message }: SourceRevision): { readonly field: string; readonly rule: string } | null {
  if (!COMMIT.test(commit)) return { field: 'source.commit', rule: 'must be 40 or 64 lower-case hex digits' };
  if (message.length > MAX_SOURCE_MESSAGE || message !== sourceMessage(message))
    return { field: 'source.message', rule: `must be one line of printable text, at most ${MAX_SOURCE_MESSAGE} characters` };
  return null;
}
