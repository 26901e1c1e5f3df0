/**
 * Maps a job's input to the arguments of its function. Errors name a missing or unknown key, or a value of the wrong
 * type.
 */
import { fitsParameter, typeMismatch } from '../../../../../lib/parameter-types.ts';
import type { Signature, TakenParameter } from './signature.ts';
import { Unfit } from './unfit.ts';

/** The input does not fit the function; its message is the job's error. */
export class InputError extends Error {}

/** Returns the arguments of one call, the context among them. */
export function argumentsFor(signature: Signature, input: unknown, context: unknown): unknown[] {
  return withContext(signature, valuesFor(signature, input), context);
}

/** Returns the arguments with the context at its place. */
export function withContext({ contextAt }: Pick<Signature, 'contextAt'>, values: readonly unknown[], context: unknown): unknown[] {
  return values.toSpliced(contextAt ?? values.length, 0, context);
}

/** Returns the first argument that is not the context. */
export function firstValue({ contextAt }: Pick<Signature, 'contextAt'>, taken: readonly unknown[]): unknown {
  return taken[contextAt === 0 ? 1 : 0];
}

function valuesFor(signature: Signature, input: unknown): unknown[] {
  if (signature.style === 'whole') return [checked(signature.parameters[0], input, 'input', true)];
  if (typeof input !== 'object' || input === null || Array.isArray(input)) throw new InputError('input must be an object');
  checkKeys(signature, input);
  checkTypes(signature, input as Readonly<Record<string, unknown>>);
  const values = input as Readonly<Record<string, unknown>>;
  const taken = signature.parameters.map((each) =>
    Object.hasOwn(values, each.name) ? checked(each, values[each.name], each.name) : undefined,
  );
  if (signature.style !== 'object') return taken;
  const named = signature.parameters.map(({ name }, index): [string, unknown] => [name, taken[index]]);
  return [Object.fromEntries(named.filter(([name]) => Object.hasOwn(values, name)))];
}

/**
 * Returns the value by the schema of its parameter. `root`: its name, which places in a whole value do not begin with.
 * @throws Unfit
 */
export function checked(parameter: TakenParameter | undefined, value: unknown, root: string, isWhole = false): unknown {
  // Null stands for an optional value.
  if (parameter?.check === undefined || (value === null && !parameter.required)) return value;
  const { value: made, problems } = parameter.check(value, isWhole ? [] : [root]);
  if (problems.length > 0) throw new Unfit(problems, root);
  return made;
}

function checkKeys({ parameters }: Signature, input: object): void {
  for (const key of Object.keys(input)) {
    if (parameters.some(({ name }) => name === key)) continue;
    const takes = parameters.length === 0 ? 'no arguments' : `: ${parameters.map(({ name }) => name).join(', ')}`;
    throw new InputError(`unknown argument: ${key} (the function takes${parameters.length === 0 ? ' ' : ''}${takes})`);
  }
  for (const { name, required } of parameters) {
    if (required && !Object.hasOwn(input, name)) throw new InputError(`missing argument: ${name}`);
  }
}

/** Only the build knows types: a signature read from the function's source at run time has none. */
function checkTypes({ parameters }: Signature, input: Readonly<Record<string, unknown>>): void {
  for (const { name, required, type = '' } of parameters) {
    if (Object.hasOwn(input, name) && !fitsParameter(input[name], { type, required }))
      throw new InputError(typeMismatch(name, type, input[name]));
  }
}
