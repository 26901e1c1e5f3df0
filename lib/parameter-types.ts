/** The one rule by which a JSON value fits the type of a function's parameter: for jobs, for routes and in the development server. */

const ARTICLES: Readonly<Record<string, string>> = { integer: 'an', array: 'an', object: 'an' };

/**
 * Returns whether a JSON value is of the type (ParameterSpec of nodes.proto). A type that is empty or not one of JSON's is not
 * checked; null stands for a value that need not be given.
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

/** Says which parameter has a value of another type, and which type it wants. */
export function typeMismatch(name: string, type: string): string {
  return `${name}: must be ${ARTICLES[type] ?? 'a'} ${type}`;
}
