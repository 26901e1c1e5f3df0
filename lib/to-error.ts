/** Converts thrown values, which may be anything, to errors. */

/** Returns an error's message; for any other value its text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns an error as it is; any other value as an error with its text. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/**
 * Returns the error code of the operating system or of Node (`ENOENT`, `ERR_STREAM_PREMATURE_CLOSE`); undefined without
 * one.
 */
export function errnoOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** True for an error with one of these codes. */
export function isErrno(thrown: unknown, ...codes: readonly string[]): thrown is NodeJS.ErrnoException {
  const code = errnoOf(thrown);
  return code !== undefined && codes.includes(code);
}
