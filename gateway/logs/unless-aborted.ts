/** Ends a wait for log lines early: the gateway closes, or the caller has gone. */

/** Resolves as the work does, or with undefined once one of the signals is aborted. */
export async function unlessAborted<T>(work: Promise<T>, ...signals: readonly AbortSignal[]): Promise<T | undefined> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => resolve(undefined);
  for (const signal of signals) {
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  }
  try {
    return await Promise.race([work, aborted]);
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', end);
  }
}
