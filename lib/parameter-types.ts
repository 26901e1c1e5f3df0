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
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    default:
      return true;
  }
}

/** Returns a message that names the parameter and the required type. */
export function typeMismatch(name: string, type: string): string {
  return `${name}: must be ${ARTICLES[type] ?? 'a'} ${type}`;
}
