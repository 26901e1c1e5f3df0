/** What the environment says; the package also loads where there is none (a browser, an edge runtime). */

/** The variable's value; undefined when it is absent or empty. */
export function variable(name: string): string | undefined {
  const { process } = globalThis as { readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> } };
  const value = process?.env?.[name];
  return value === '' ? undefined : value;
}

/** True in a worker of another endpoint than the one of this name. */
export function isForeign(endpointName: string): boolean {
  const own = variable('CAPSTAN_ENDPOINT_NAME');
  return own !== undefined && own !== endpointName;
}

/** The build's folder while its module is loaded: user code may change the working folder later. */
export const startFolder = (globalThis as { readonly process?: { readonly cwd?: () => string } }).process?.cwd?.() ?? '';

/**
 * Aborted when the job or the request that the calling code is part of is stopped. The worker's host knows it
 * (agent/runtimes/thread/host/stopping.ts); undefined anywhere else.
 */
export function stopSignal(): AbortSignal | undefined {
  const known = (globalThis as { readonly [key: symbol]: unknown })[Symbol.for('capstan.stopSignal')];
  return typeof known === 'function' ? (known as () => AbortSignal | undefined)() : undefined;
}
