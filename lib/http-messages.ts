/** Messages about HTTP requests that several parts use. */

/** Why a request is given up. */
export const CALLER_DISCONNECTED = 'the caller disconnected';
/** Shown in place of the message of an error that the service itself has caused. */
export const INTERNAL_ERROR = 'internal error';

/** `allowed`: separated by commas. */
export function methodNotAllowed(method: string, allowed: string): string {
  return `${method} is not allowed here; use ${allowed}`;
}

/** `where`: an address or a port. */
export function inUse(where: string): string {
  return `${where} is in use by another program`;
}
