/**
 * Validates input by a schema of any library that follows Standard Schema (https://standardschema.dev): zod, valibot,
 * arktype and others. The interface is declared here, so that none of them is a dependency.
 */

import { placeOf } from './json-values.ts';

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    /** Carries the types; absent at run time. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type InputOf<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input'];
export type OutputOf<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output'];

/** Problems that one message names. */
const MAX_NAMED = 10;

/** The input does not match its schema; the message names the place and the rule of each problem, ten at most. */
export class InputError extends Error {
  override readonly name = 'InputError';
  readonly issues: readonly StandardIssue[];
  /** The input: a worker refuses a call whose own input it is. Not shown with the error. */
  declare readonly input: unknown;

  constructor(issues: readonly StandardIssue[], input?: unknown) {
    super(`invalid input: ${issues.slice(0, MAX_NAMED).map(describe).join('; ')}${issues.length > MAX_NAMED ? '; and more' : ''}`);
    this.issues = issues;
    Object.defineProperty(this, 'input', { value: input, enumerable: false });
  }
}

/**
 * Validates the value and passes on the schema's result; a promise only if the schema returns one.
 * @throws InputError
 */
export function withChecked<T, R>(schema: StandardSchema<unknown, T>, value: unknown, use: (checked: T) => R): R | Promise<Awaited<R>> {
  const result = schema['~standard'].validate(value);
  if (result instanceof Promise) return result.then((settled) => use(valueOf(settled, value)) as Awaited<R>);
  return use(valueOf(result, value));
}

function valueOf<T>(result: StandardResult<T>, input: unknown): T {
  if (result.issues !== undefined) throw new InputError(result.issues, input);
  return result.value;
}

function describe({ message, path = [] }: StandardIssue): string {
  const place = placeOf(path.map((step) => stepOf(typeof step === 'object' ? step.key : step)));
  return place === '' ? message : `${place}: ${message}`;
}

function stepOf(key: PropertyKey): string | number {
  return typeof key === 'number' ? key : String(key);
}
