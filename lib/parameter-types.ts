/**
 * Checks whether a JSON value has the type of a function's parameter: for jobs, for routes and in the development
 * server.
 */

const ARTICLES: Readonly<Record<string, string>> = { integer: 'an', array: 'an', object: 'an' };

/**
 * Returns whether a JSON value has the type (ParameterSpec of nodes.proto). An empty or unknown type is not checked;
 * null stands for an optional value.
 */
export function fitsParameter(value: unknown, { type, required }: { readonly type: string; readonly required: boolean }): boolean {
  if (value === null && !required) return true;
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type;
    case 'integer':
      return Number.isInteger(value) || typeof value === 'bigint';
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    default:
      return true;
  }
}

/** Returns a message that names the parameter and the required type of the value. */
export function typeMismatch(name: string, type: string, value?: unknown): string {
  const rule = type === 'number' && typeof value === 'bigint' ? unsafeInteger(value) : `must be ${ARTICLES[type] ?? 'a'} ${type}`;
  return `${name}: ${rule}`;
}

/** Digits of a value that a message shows. */
const SHOWN_DIGITS = 40;

/** The rule that an integer beyond 2^53 breaks where a number is declared. */
export function unsafeInteger(value: bigint): string {
  const digits = value.toString();
  const shown = digits.length > SHOWN_DIGITS ? `${digits.slice(0, SHOWN_DIGITS)}…` : digits;
  return `must be declared as bigint to hold ${shown}, of which a number would lose digits`;
}
