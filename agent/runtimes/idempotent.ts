/** Methods whose requests may be sent again without knowing how far they came (RFC 9110, section 9.2.2). */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);

export function isIdempotent(method: string): boolean {
  return IDEMPOTENT.has(method);
}
