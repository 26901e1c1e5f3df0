/** Paths of load-balanced routes, and the rules they keep. */

export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH';

const PARAMETER = /^(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|:([A-Za-z_][A-Za-z0-9_]*))$/;

/** The rule that a route's path breaks, or null. */
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

/** The name of the parameter that a path's segment is; null for any other. */
export function parameterOf(segment: string): string | null {
  const match = PARAMETER.exec(segment);
  return match === null ? null : (match[1] ?? match[2] ?? '');
}

/** Two paths that answer the same requests have the same form here, whatever their parameters are called. */
export function sameRoute(path: string): string {
  return path
    .split('/')
    .map((segment) => (PARAMETER.test(segment) ? '{}' : segment))
    .join('/');
}
