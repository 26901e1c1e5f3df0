/** Values that do not fit their declared types or the schema of their function: refusals, and not errors of the function. */
import { placeOf } from './json-values.ts';

/** Problems that one message names. */
const MAX_NAMED = 10;

export interface Problem {
  readonly path: readonly (string | number)[];
  readonly rule: string;
}

/** One place of a refusal, as a route's response has it. */
export interface Place {
  readonly path: string;
  readonly message: string;
}

/** The message names each place and its rule. `root`: what a value without a place is called. */
export class Unfit extends Error {
  readonly places: readonly Place[];

  constructor(problems: readonly Problem[], root: string) {
    const places = problems.slice(0, MAX_NAMED).map(({ path, rule }) => ({ path: placeOf(path) || root, message: rule }));
    super(`${places.map(({ path, message }) => `${path}: ${message}`).join('; ')}${problems.length > MAX_NAMED ? '; and more' : ''}`);
    this.places = places;
  }
}

/**
 * Returns the problems that a schema of the SDK (InputError) found in `input`, the very value that the function was
 * called with; undefined for any other error, also for one of a function that it called in turn. Each build has its own
 * copy of the SDK, so the error is known by its shape.
 */
export function schemaProblems(error: unknown, input: unknown): readonly Place[] | undefined {
  if (!(error instanceof Error) || error.name !== 'InputError') return undefined;
  const { issues, input: checked } = error as { readonly issues?: unknown; readonly input?: unknown };
  if (checked !== input || input === undefined || !Array.isArray(issues)) return undefined;
  return (issues as readonly Issue[])
    .slice(0, MAX_NAMED)
    .map(({ message, path = [] }) => ({ path: placeOf(path.map(stepOf)), message: String(message) }));
}

interface Issue {
  readonly message?: unknown;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
}

function stepOf(step: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof step === 'object' ? step.key : step;
  return typeof key === 'number' ? key : String(key);
}
