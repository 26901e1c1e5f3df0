/** Paths of load-balanced routes, and their rules. */

export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH';

const PARAMETER = /^(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|:([A-Za-z_][A-Za-z0-9_]*))$/;

/** Returns the rule that a route's path breaks, or null. */
export function pathViolation(path: unknown): string | null {
  if (typeof path !== 'string') return 'must be a string';
  if (!path.startsWith('/')) return 'must start with /';
  if (path.length > 1024) return 'must have at most 1024 characters';
  if (/[\s?#]/.test(path)) return 'must not contain white space, ? or #';
  for (const segment of path.split('/')) {
    if (/[{}]|^:/.test(segment) && !PARAMETER.test(segment))
      return `has the segment ${segment}; a path parameter must be a whole segment {name}`;
  }
  const names = pathParameters(path);
  return new Set(names).size === names.length ? null : 'has a path parameter twice';
}

/** The names of a path's parameters, in order. */
function pathParameters(path: string): string[] {
  return path.split('/').flatMap((segment) => parameterOf(segment) ?? []);
}

/** Returns the name of the parameter in a path segment; null for a literal segment. */
export function parameterOf(segment: string): string | null {
  const match = PARAMETER.exec(segment);
  return match === null ? null : (match[1] ?? match[2] ?? '');
}

/** Returns the same text for two paths that match the same requests, whatever their parameter names. */
export function sameRoute(path: string): string {
  return path
    .split('/')
    .map((segment) => (PARAMETER.test(segment) ? '{}' : segment))
    .join('/');
}
