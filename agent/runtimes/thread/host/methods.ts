/**
 * Maps a module's export to the callable for an input. A function is called directly. A class is instantiated once per
 * worker; if it has several public methods, the input's key `method` selects one.
 */
import type { FunctionSpec } from '../../../../proto/gen/capstan/v1/nodes.ts';
import { InputError } from './call/arguments.ts';
import type { Handler } from './call/module.ts';
import { readSignature, signatureOf, type Signature } from './call/signature.ts';

export interface LoadedFunction {
  readonly handler: Handler;
  readonly signature: Signature;
}

/** The callable for one input. */
export interface Choice extends LoadedFunction {
  /** The input without the key that selected the method. */
  readonly input: unknown;
}

/** Throws InputError for an input that selects no method. */
export type Choose = (input: unknown) => Choice;

/** Throws an Error with a readable message when a class has no public method or cannot be constructed. */
export function choiceOf(exported: Handler, spec: FunctionSpec): Choose {
  if (isClass(exported)) return choiceOfMethods(exported as unknown as new () => object, spec);
  const fn = { handler: exported, signature: signatureOf(exported, spec) };
  return (input) => ({ ...fn, input });
}

function choiceOfMethods(made: new () => object, { name, classSpec }: FunctionSpec): Choose {
  const instance = new made();
  // The build has read the methods that the sources show.
  const specs = new Map(classSpec?.methods.map((each) => [each.name, each]));
  const methods = new Map<string, LoadedFunction>();
  for (const [key, method] of publicMethods(instance)) {
    const spec = specs.get(key);
    methods.set(key, { handler: method.bind(instance), signature: spec === undefined ? readSignature(method) : signatureOf(method, spec) });
  }
  if (methods.size === 0) throw new Error(`the class ${name} has no public method`);
  const names = [...methods.keys()].join(', ');
  const [first] = methods.values();
  const sole = methods.size === 1 ? first : undefined;
  return (input) => {
    if (typeof input !== 'object' || input === null || Array.isArray(input)) throw new InputError('input must be an object');
    const { method: key, ...rest } = input as Readonly<Record<string, unknown>>;
    if (sole !== undefined && (takesMethod(sole.signature) || typeof key !== 'string' || !methods.has(key))) return { ...sole, input };
    if (key === undefined) throw new InputError(`missing argument: method (one of: ${names})`);
    const chosen = typeof key === 'string' ? methods.get(key) : undefined;
    if (chosen === undefined)
      throw new InputError(`unknown method: ${typeof key === 'string' ? key : JSON.stringify(key)} (the class ${name} has: ${names})`);
    return { ...chosen, input: rest };
  };
}

/** The only method of a class may have an argument of this name. */
function takesMethod({ parameters }: Signature): boolean {
  return parameters.some(({ name }) => name === 'method');
}

/** Returns own and inherited methods, except those of Object and names that start with an underscore. */
function publicMethods(instance: object): Map<string, Handler> {
  const found = new Map<string, Handler>();
  for (let at: unknown = Object.getPrototypeOf(instance); isObject(at) && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (key === 'constructor' || key.startsWith('_') || found.has(key) || typeof value !== 'function') continue;
      found.set(key, value as Handler);
    }
  }
  return found;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isClass(exported: Handler): boolean {
  return /^class\b/.test(Function.prototype.toString.call(exported));
}
