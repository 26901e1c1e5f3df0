/**
 * The rule for a worker's environment (the `env` of an endpoint), shared by the manifest, the CLI's settings, GraphQL
 * and gRPC. Every runtime can pass valid values to a process.
 */

/** Names that every shell, engine and language accepts. */
export const ENVIRONMENT_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
export const ENVIRONMENT_NAME_RULE = 'must be a name of letters, digits and underscores';

/** Limit of a name and its value, bytes of UTF-8: the longest string of Linux (128 KiB) less `=` and the terminator. */
const LONGEST_VALUE = 131_070;
/** Limit of all of them, bytes: half of Linux's limit for a program's arguments and environment. */
const LONGEST_ENVIRONMENT = 1_048_576;

/**
 * Returns why a value is invalid; null when it is valid. The reason never contains the value, which may be a secret.
 */
export function valueFault(name: string, value: string): string | null {
  if (value.includes('\0')) return 'must not contain the character NUL';
  if (sizeOf(name, value) > LONGEST_VALUE) return `must have at most ${LONGEST_VALUE} bytes, including its name`;
  return null;
}

/**
 * Returns the first violation of an environment and the path below it (`["A B"]`, `.A`, or empty for all of it); null
 * without one.
 */
export function environmentFault(env: Readonly<Record<string, string>>): { readonly path: string; readonly rule: string } | null {
  let bytes = 0;
  for (const [name, value] of Object.entries(env)) {
    if (!ENVIRONMENT_NAME.test(name)) return { path: `[${JSON.stringify(name)}]`, rule: ENVIRONMENT_NAME_RULE };
    const rule = valueFault(name, value);
    if (rule !== null) return { path: `.${name}`, rule };
    bytes += sizeOf(name, value);
  }
  return bytes > LONGEST_ENVIRONMENT ? { path: '', rule: `must have at most ${LONGEST_ENVIRONMENT} bytes in total` } : null;
}

function sizeOf(name: string, value: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value);
}
