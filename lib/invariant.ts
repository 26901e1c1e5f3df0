/** Conditions that only a mistake in this program can violate: never a caller, a node or a store. */

/** An invariant does not hold: the state that it was found in must not be used any longer. */
export class InvariantViolation extends Error {
  override readonly name = 'InvariantViolation';
  /** Of what it was found in, for the log. */
  readonly ids: Readonly<Record<string, unknown>>;

  constructor(what: string, ids: Readonly<Record<string, unknown>>) {
    const shown = Object.entries(ids).map(([name, value]) => ` ${name}=${String(value)}`);
    super(`invariant violated: ${what}${shown.join('')}`);
    this.ids = ids;
  }
}

/** For conditions that are about nothing in particular. */
const NO_IDS: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * Asserts what must hold. `what` says it as a fact ("a leased job has a lease"), `ids` name what it is about; both are shown, so neither
 * holds a payload or a secret.
 * @throws InvariantViolation
 */
export function invariant(condition: unknown, what: string, ids: Readonly<Record<string, unknown>> = NO_IDS): asserts condition {
  if (!condition) throw new InvariantViolation(what, ids);
}

/**
 * Returns the value, which must be present.
 * @throws InvariantViolation
 */
export function present<T>(value: T | null | undefined, what: string, ids: Readonly<Record<string, unknown>> = NO_IDS): T {
  if (value === null || value === undefined) throw new InvariantViolation(what, ids);
  return value;
}
