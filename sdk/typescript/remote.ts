/**
 * Stubs: in a worker, they replace the functions and classes of other endpoints. A build writes them as modules, and a
 * declaration returns one for a function or class of another endpoint:
 *
 *   export const embed = remote('embed', { parameters: ['text'] });
 */
import { invoke, invokeStream, type Target } from './dispatch.ts';
import { DispatchError } from './errors.ts';
import { isClass, type AnyFunction } from './functions.ts';
import { parameterNames } from './parameters.ts';

export interface RemoteOptions {
  /** Names of the parameters in order. Without them a call takes one object with the arguments by name. */
  readonly parameters?: readonly string[];
  /** A generator: the call yields its chunks as they arrive. */
  readonly isGenerator?: boolean;
  /** Name of the endpoint, when the manifest does not have it. */
  readonly endpoint?: string;
}

export type RemoteFunction = (...args: readonly unknown[]) => Promise<unknown>;
export type RemoteGenerator = (...args: readonly unknown[]) => AsyncGenerator<unknown, void, void>;

/**
 * Returns a function that calls another endpoint's function. The call throws RemoteError with the function's own
 * message.
 */
export function remote(functionName: string, options: RemoteOptions & { readonly isGenerator: true }): RemoteGenerator;
export function remote(functionName: string, options?: RemoteOptions): RemoteFunction;
export function remote(functionName: string, options: RemoteOptions = {}): RemoteFunction | RemoteGenerator {
  return stubOf(functionName, undefined, options);
}

/**
 * Returns a class whose methods call those of another endpoint's class. The workers construct their own instance,
 * without arguments.
 */
export function remoteClass(
  className: string,
  methods: Readonly<Record<string, Omit<RemoteOptions, 'endpoint'>>>,
  options: Pick<RemoteOptions, 'endpoint'> = {},
): new () => Record<string, RemoteFunction | RemoteGenerator> {
  const Remote = function Remote(...args: readonly unknown[]): void {
    if (args.length > 0)
      throw new DispatchError(`${className} runs at another endpoint, whose workers construct it; construct it without arguments here`);
  };
  for (const [method, described] of Object.entries(methods))
    Object.defineProperty(Remote.prototype, method, { value: stubOf(className, method, { ...described, ...options }) });
  Object.defineProperty(Remote, 'name', { value: className });
  return Remote as unknown as new () => Record<string, RemoteFunction | RemoteGenerator>;
}

/**
 * Returns the stub of a function that another endpoint declared in this process. Its parameters are read from its text.
 */
export function stubOfDeclared(fn: AnyFunction, hasSchema: boolean, endpoint: string, route: Target['route']): AnyFunction {
  if (!isClass(fn)) {
    // An anonymous function is identified by its route, or by its endpoint, which has no other function.
    const name = fn.name === '' ? (route === undefined ? endpoint : `${route.method} ${route.path}`) : fn.name;
    return stubOf(name, undefined, { endpoint, ...describe(fn, hasSchema) }, route);
  }
  const methods: Record<string, Omit<RemoteOptions, 'endpoint'>> = {};
  for (let at: unknown = fn.prototype; isObject(at) && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (name !== 'constructor' && !name.startsWith('_') && typeof value === 'function')
        methods[name] ??= describe(value as AnyFunction, false);
    }
  }
  return remoteClass(fn.name, methods, { endpoint });
}

function describe(fn: AnyFunction, hasSchema: boolean): Omit<RemoteOptions, 'endpoint'> {
  const parameters = hasSchema ? undefined : parameterNames(fn);
  return {
    isGenerator: fn.constructor.name === 'GeneratorFunction' || fn.constructor.name === 'AsyncGeneratorFunction',
    ...(parameters === undefined ? {} : { parameters }),
  };
}

function stubOf(
  functionName: string,
  method: string | undefined,
  options: RemoteOptions,
  route?: Target['route'],
): RemoteFunction | RemoteGenerator {
  const target: Target = { functionName, endpointName: options.endpoint, route };
  const name = method ?? functionName;
  const inputOf = (args: readonly unknown[]): object => {
    const input = argumentsByName(name, options.parameters, args);
    return method === undefined ? input : { method, ...input };
  };
  const stub =
    options.isGenerator === true
      ? (...args: readonly unknown[]) => invokeStream(target, inputOf(args))
      : async (...args: readonly unknown[]) => invoke(target, inputOf(args));
  Object.defineProperty(stub, 'name', { value: name });
  return stub;
}

/** Returns the arguments of a call by name. @throws TypeError */
function argumentsByName(name: string, parameters: readonly string[] | undefined, args: readonly unknown[]): object {
  if (parameters === undefined) {
    const [input = {}] = args;
    if (args.length > 1 || !isObject(input) || Array.isArray(input))
      throw new TypeError(`${name} runs at another endpoint and takes one object with its arguments by name`);
    return input;
  }
  if (args.length > parameters.length) throw new TypeError(`${name} takes ${parameters.length} arguments, not ${args.length}`);
  // JSON omits undefined.
  return Object.fromEntries(args.flatMap((value, index) => (value === undefined ? [] : [[parameters[index] ?? '', value]])));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
