/**
 * Validates input by a schema of any library that follows Standard Schema (https://standardschema.dev): zod, valibot,
 * arktype and others. The interface is declared here, so that none of them is a dependency.
 */

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

/** The input does not match its schema; the message names each path and rule. */
export class InputError extends Error {
  override readonly name = 'InputError';
  readonly issues: readonly StandardIssue[];

  constructor(issues: readonly StandardIssue[]) {
    super(`invalid input: ${issues.map(describe).join('; ')}`);
    this.issues = issues;
  }
}

/**
 * Validates the value and passes on the schema's result; a promise only if the schema returns one.
 * @throws InputError
 */
export function withChecked<T, R>(schema: StandardSchema<unknown, T>, value: unknown, use: (checked: T) => R): R | Promise<Awaited<R>> {
  const result = schema['~standard'].validate(value);
  if (result instanceof Promise) return result.then((settled) => use(valueOf(settled)) as Awaited<R>);
  return use(valueOf(result));
}

function valueOf<T>(result: StandardResult<T>): T {
  if (result.issues !== undefined) throw new InputError(result.issues);
  return result.value;
}

function describe({ message, path = [] }: StandardIssue): string {
  const place = path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
  return place === '' ? message : `${place}: ${message}`;
}
