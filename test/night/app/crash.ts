/** A module that cannot be loaded. */
throw new Error('no module named torch');

export function never(): void {
  // It is not reached.
}
