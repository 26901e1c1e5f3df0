/** Rules of an endpoint's program and routes that the manifest and a deployment must follow. */

export const NO_COMMAND_WITH_FUNCTIONS = 'is for foreign workers, which have no functions';
export const NO_ROUTES_WITHOUT_FUNCTIONS = 'require functions; a foreign worker serves every path itself';
export const NEEDS_A_ROUTE = 'a load-balanced endpoint needs at least one route';

export function oneFunctionRule(count: number): string {
  return `a queue endpoint must have exactly one function, not ${count}`;
}

export function functionMissing(name: string): string {
  return `the endpoint has no function ${name}`;
}
