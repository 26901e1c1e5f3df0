/** Reads environment variables. The package also loads where none exist (a browser, an edge runtime). */

/** Returns the variable's value; undefined when absent or empty. */
export function variable(name: string): string | undefined {
  const { process } = globalThis as { readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> } };
  const value = process?.env?.[name];
  return value === '' ? undefined : value;
}

/** True in a worker of an endpoint with another name. */
export function isForeign(endpointName: string): boolean {
  const own = variable('CAPSTAN_ENDPOINT_NAME');
  return own !== undefined && own !== endpointName;
}

/** The build's folder while its module is loaded; user code may change the working folder later. */
export const startFolder = (globalThis as { readonly process?: { readonly cwd?: () => string } }).process?.cwd?.() ?? '';

/**
 * Aborted when the job or request of the calling code is stopped. Set by the worker's host
 * (agent/runtimes/thread/host/call/stopping.ts); undefined elsewhere.
 */
export function stopSignal(): AbortSignal | undefined {
  const known = (globalThis as { readonly [key: symbol]: unknown })[Symbol.for('capstan.stopSignal')];
  return typeof known === 'function' ? (known as () => AbortSignal | undefined)() : undefined;
}
