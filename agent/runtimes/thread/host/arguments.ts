/**
 * Maps a job's input to the arguments of its function. Errors name a missing or unknown key, or a value of the wrong
 * type.
 */
import { fitsParameter, typeMismatch } from '../../../../lib/parameter-types.ts';
import type { Signature } from './signature.ts';

/** The input does not fit the function; its message is the job's error. */
export class InputError extends Error {}

/** Returns the arguments of one call; the context is last. */
export function argumentsFor(signature: Signature, input: unknown, context: unknown): unknown[] {
  if (signature.style === 'whole') return [input, context];
  if (typeof input !== 'object' || input === null || Array.isArray(input)) throw new InputError('input must be an object');
  checkKeys(signature, input);
  checkTypes(signature, input as Readonly<Record<string, unknown>>);
  if (signature.style === 'object') return [input, context];
  const values = input as Record<string, unknown>;
  return [...signature.parameters.map(({ name }) => (Object.hasOwn(values, name) ? values[name] : undefined)), context];
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
    if (Object.hasOwn(input, name) && !fitsParameter(input[name], { type, required })) throw new InputError(typeMismatch(name, type));
  }
}
