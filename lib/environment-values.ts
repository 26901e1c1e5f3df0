/**
 * What the environment of a worker may hold (the `env` of an endpoint), one rule for every way in:
 * the manifest, the tool's settings, GraphQL and gRPC. What it lets through, every runtime can give
 * to a process.
 */

/** Names that every shell, engine and language takes. */
export const ENVIRONMENT_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
export const ENVIRONMENT_NAME_RULE = 'must be a name of letters, digits and underscores';

/** Bytes of a name and its value, of UTF-8: what Linux takes as one text (128 KiB) less `=` and the end. */
const LONGEST_VALUE = 131_070;
/** Bytes of all of them: half of what Linux gives to a program's arguments and environment. */
const LONGEST_ENVIRONMENT = 1_048_576;

/** Why a value cannot be given; null when it can. The rule never holds the value, which may be a secret. */
export function valueFault(name: string, value: string): string | null {
  if (value.includes('\0')) return 'must not contain the character NUL';
  if (sizeOf(name, value) > LONGEST_VALUE) return `must have at most ${LONGEST_VALUE} bytes, its name included`;
  return null;
}

/** The first fault of an environment, and the path below it (`["A B"]`, `.A`, or empty for all of it); null without one. */
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
