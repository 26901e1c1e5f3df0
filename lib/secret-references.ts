/**
 * References to secrets in the environment values of an endpoint: `{{ RUNPOD_SECRET_NAME }}`, as templates of the original have
 * them, or `{{ CAPSTAN_SECRET_NAME }}`, as the SDKs write them. A worker gets the values that the secrets have when it starts.
 */
import { ENVIRONMENT_NAME, valueFault } from './environment-values.ts';

/** Bytes of a secret's value: with {@link MAX_IN_VALUE} of them a variable stays below Linux's limit for one string. */
export const MAX_SECRET_BYTES = 16_000;
export const MAX_SECRET_NAME = 128;
export const SECRET_NAME_RULE = `must be a name of 1 to ${MAX_SECRET_NAME} letters, digits and underscores, and must not start with a digit`;
/** References in one value, and bytes of a value with any. */
const MAX_IN_VALUE = 4;
const MAX_TEXT_BYTES = 65_536;
const MAX_IN_ENVIRONMENT = 64;

const REFERENCE = /\{\{[ \t]*(?:RUNPOD|CAPSTAN)_SECRET_([A-Za-z_]\w*)[ \t]*\}\}/g;

type Environment = Readonly<Record<string, string>>;

export function isSecretName(name: string): boolean {
  return name.length <= MAX_SECRET_NAME && ENVIRONMENT_NAME.test(name);
}

/** Returns why a value cannot be a secret's; null if it can. The reason never contains the value. */
export function secretFault(value: string): string | null {
  if (value === '') return 'must not be empty';
  const bytes = Buffer.byteLength(value);
  if (bytes > MAX_SECRET_BYTES) return `must have at most ${MAX_SECRET_BYTES} bytes, not ${bytes}`;
  return valueFault('', value);
}

/** Returns the names of the secrets that an environment refers to, sorted. */
export function secretNames(env: Environment): string[] {
  return [...new Set(Object.values(env).flatMap(namesIn))].toSorted();
}

/** As environmentFault, for the references of an environment. */
export function referenceFault(env: Environment): { readonly path: string; readonly rule: string } | null {
  let total = 0;
  for (const [name, value] of Object.entries(env)) {
    const names = namesIn(value);
    if (names.length === 0) continue;
    total += names.length;
    const path = `.${name}`;
    if (names.length > MAX_IN_VALUE) return { path, rule: `must refer to at most ${MAX_IN_VALUE} secrets` };
    if (Buffer.byteLength(name) + Buffer.byteLength(value) > MAX_TEXT_BYTES)
      return { path, rule: `must have at most ${MAX_TEXT_BYTES} bytes with its name, because it refers to secrets` };
    const long = names.find((each) => !isSecretName(each));
    if (long !== undefined) return { path, rule: `the name of a secret ${SECRET_NAME_RULE}` };
  }
  return total > MAX_IN_ENVIRONMENT ? { path: '', rule: `must refer to secrets at most ${MAX_IN_ENVIRONMENT} times` } : null;
}

/** Returns an environment with the values of its secrets; a variable that refers to a secret without a value is left out. */
export function withSecrets(env: Environment, valueOf: (name: string) => string | undefined): Record<string, string> {
  const found = new Map(secretNames(env).map((name) => [name, valueOf(name)]));
  return Object.fromEntries(
    Object.entries(env).flatMap(([variable, text]) => {
      if (namesIn(text).some((name) => found.get(name) === undefined)) return [];
      return [[variable, text.replaceAll(REFERENCE, (_whole, name: string) => found.get(name) ?? '')]];
    }),
  );
}

function namesIn(text: string): string[] {
  return [...text.matchAll(REFERENCE)].map(([, name = '']) => name);
}
