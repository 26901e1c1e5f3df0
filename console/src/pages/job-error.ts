/** Errors of handlers are JSON with a trace in it; others are plain text. */

interface HandlerError {
  readonly error_message?: unknown;
  readonly error_traceback?: unknown;
}

/** The message of an error without its trace; null for none. */
export function errorMessage(error: string | null): string | null {
  const { error_message: message } = parsed(error);
  return typeof message === 'string' ? message : error;
}

/** The message with its trace. */
export function errorText(error: string): string {
  const { error_message: message, error_traceback: trace } = parsed(error);
  const texts = [message, trace].filter((each) => typeof each === 'string');
  return texts.length === 0 ? error : texts.join('\n\n');
}

function parsed(error: string | null): HandlerError {
  if (error?.startsWith('{') !== true) return {};
  try {
    return JSON.parse(error) as HandlerError;
  } catch {
    return {};
  }
}
