/**
 * Declares endpoints:
 *
 *   export const embed = endpoint({ name: 'embed', gpu: 'ANY' }, (text: string) => …);     queue-based
 *
 *   const api = new Endpoint({ name: 'api', workers: [1, 3] });
 *   export const health = api.get('/health', () => ({ status: 'ok' }));                    load-balanced
 *
 * A declared function or class stays unchanged and can be called as before. Only in a worker of another endpoint is it
 * replaced by a stub, whose calls go to the endpoint's own workers.
 */
import { placeOfCaller } from './caller.ts';
import type { EndpointClient } from './client.ts';
import { clientAt, runAt, urlOf } from './dispatch.ts';
import { isForeign } from './environment.ts';
import { DeclarationError } from './errors.ts';
import { markFunction, type AnyFunction, type FunctionDeclaration } from './functions.ts';
import { register } from './registry.ts';
import { stubOfDeclared } from './remote.ts';
import { pathViolation, sameRoute, type RouteMethod } from './routes.ts';
import { withChecked, type InputOf, type OutputOf, type StandardSchema } from './schema.ts';
import { checkSettings, resourceOf, type CheckedSettings, type EndpointSettings } from './settings.ts';

/** The last argument of a handler. */
export interface JobContext {
  readonly jobId: string;
  readonly endpointId: string;
  /** 1 for the first started attempt. */
  readonly attempt: number;
  /** Aborted when the job is cancelled or timed out; one second later the handler is killed. */
  readonly signal: AbortSignal;
  /** Reports progress; status calls return the latest value. At most 64 KiB of JSON. */
  progress(value: unknown): void;
  /** As the caller sent it; secret. */
  readonly s3Config:
    | {
        readonly accessId: string;
        readonly accessSecret: string;
        readonly bucketName: string;
        readonly endpointUrl: string;
        readonly [other: string]: unknown;
      }
    | undefined;
  /**
   * W3C trace context of the job (`traceparent`), for programs that continue the trace; undefined without one. Calls with this SDK
   * continue it by themselves.
   */
  readonly traceparent: string | undefined;
}

export interface RouteOptions<S extends StandardSchema = StandardSchema> {
  /** Validates the keys of the body together with those of the query and the path. */
  readonly schema?: S;
}

/**
 * A function whose argument a schema has validated. `Returned` is a promise when the schema validates asynchronously.
 */
export type Checked<S extends StandardSchema, Returned> = (input: InputOf<S>, context?: JobContext) => Returned;

export class Declaration {
  readonly settings: CheckedSettings;
  /** The place of the declaration, `file:line`; empty when unknown. */
  readonly place: string;
  readonly #functions: FunctionDeclaration[] = [];

  /** @throws DeclarationError naming the setting and the rule. */
  constructor(settings: EndpointSettings) {
    this.settings = checkSettings(settings);
    this.place = placeOfCaller();
    register(this);
  }

  get name(): string {
    return this.settings.name;
  }

  /** The functions that it serves, in the order of declaration. */
  get functions(): readonly FunctionDeclaration[] {
    return this.#functions;
  }

  get isLoadBalanced(): boolean {
    return this.settings.loadBalanced || this.#functions.some(({ route }) => route !== undefined);
  }

  /** The entry under `resources` of the manifest; its functions lack their modules, which the build adds. */
  resource(): Record<string, unknown> {
    return {
      ...resourceOf(this.settings),
      ...(this.isLoadBalanced ? { is_load_balanced: true } : {}),
      functions: this.#functions
        .filter(({ fn }, index) => this.#functions.findIndex((other) => other.fn === fn) === index)
        .map(({ name, isAsync, isClass, route }) => ({
          name,
          is_async: isAsync,
          is_class: isClass,
          ...(route === undefined ? {} : { http_method: route.method, http_path: route.path }),
        })),
    };
  }

  /**
   * In a worker of another endpoint: runs a job at this endpoint, found by its name, and returns the result. For an
   * image that serves by itself; functions have stubs. @throws RemoteError with the job's error; DispatchError,
   * CapstanApiError, ConnectionError
   */
  async runSync(input: object): Promise<unknown> {
    return runAt(this.name, input);
  }

  /** As `runSync`. */
  runsync(input: object): Promise<unknown> {
    return this.runSync(input);
  }

  /**
   * Returns the handle of this endpoint as deployed in the worker's environment. @throws DispatchError,
   * CapstanApiError, ConnectionError
   */
  async deployed(): Promise<EndpointClient<object>> {
    return clientAt(this.name);
  }

  /**
   * Returns the URL for requests or jobs in the worker's environment; the key is CAPSTAN_WORKER_TOKEN. Throws as
   * `deployed`.
   */
  async url(): Promise<string> {
    return urlOf(this.name);
  }

  /** Binds GET requests of a path to a function, and returns the function. Path parameters are written `{name}`. */
  get<F extends AnyFunction>(path: string, fn: F): F;
  get<S extends StandardSchema, R>(
    path: string,
    options: RouteOptions<S>,
    fn: (input: OutputOf<S>, context: JobContext) => R,
  ): Checked<S, R>;
  get(path: string, ...rest: RouteArguments): AnyFunction {
    return this.#route('GET', path, rest);
  }

  /** As `get`, for POST; the keys of the JSON body are the function's arguments. */
  post<F extends AnyFunction>(path: string, fn: F): F;
  post<S extends StandardSchema, R>(
    path: string,
    options: RouteOptions<S>,
    fn: (input: OutputOf<S>, context: JobContext) => R,
  ): Checked<S, R>;
  post(path: string, ...rest: RouteArguments): AnyFunction {
    return this.#route('POST', path, rest);
  }

  /** As `post`, for PUT. */
  put<F extends AnyFunction>(path: string, fn: F): F;
  put<S extends StandardSchema, R>(
    path: string,
    options: RouteOptions<S>,
    fn: (input: OutputOf<S>, context: JobContext) => R,
  ): Checked<S, R>;
  put(path: string, ...rest: RouteArguments): AnyFunction {
    return this.#route('PUT', path, rest);
  }

  /** As `get`, for DELETE. */
  delete<F extends AnyFunction>(path: string, fn: F): F;
  delete<S extends StandardSchema, R>(
    path: string,
    options: RouteOptions<S>,
    fn: (input: OutputOf<S>, context: JobContext) => R,
  ): Checked<S, R>;
  delete(path: string, ...rest: RouteArguments): AnyFunction {
    return this.#route('DELETE', path, rest);
  }

  /** As `post`, for PATCH. */
  patch<F extends AnyFunction>(path: string, fn: F): F;
  patch<S extends StandardSchema, R>(
    path: string,
    options: RouteOptions<S>,
    fn: (input: OutputOf<S>, context: JobContext) => R,
  ): Checked<S, R>;
  patch(path: string, ...rest: RouteArguments): AnyFunction {
    return this.#route('PATCH', path, rest);
  }

  /** Sets the function or class that this endpoint runs; `endpoint(settings, fn)` is the short form. */
  serve(fn: AnyFunction, schema: StandardSchema | undefined): AnyFunction {
    const [first] = this.#functions;
    this.#mustServeFunctions();
    if (this.settings.loadBalanced && first === undefined)
      throw this.#broken('is load-balanced; bind functions to routes with get, post and so on');
    if (first !== undefined) {
      const what = first.route === undefined ? `already serves ${first.name}` : 'already has routes, and is load-balanced';
      throw this.#broken(`${what}; a queue-based endpoint must have exactly one function`);
    }
    return this.#take(fn, schema, undefined);
  }

  #route(method: RouteMethod, path: string, rest: RouteArguments): AnyFunction {
    const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
    this.#mustServeFunctions();
    const violation = pathViolation(path);
    if (violation !== null) throw this.#broken(`the path ${JSON.stringify(path)} ${violation}`);
    for (const other of this.#functions) {
      if (other.route === undefined) throw this.#broken(`already serves ${other.name} as a queue-based endpoint and cannot have routes`);
      if (other.route.method === method && sameRoute(other.route.path) === sameRoute(path))
        throw this.#broken(`${method} ${path} is already bound${other.place === '' ? '' : ` (${other.place})`}`);
    }
    return this.#take(fn, options.schema, { method, path });
  }

  #mustServeFunctions(): void {
    const { app, command } = this.settings;
    if (app !== undefined) throw this.#broken('serves an app, which handles every path itself, and cannot have functions');
    if (command.length > 0) throw this.#broken('runs a command, which handles every path itself, and cannot have functions');
  }

  #take(fn: AnyFunction, schema: StandardSchema | undefined, route: FunctionDeclaration['route']): AnyFunction {
    if (typeof fn !== 'function') throw this.#broken(`must have a function, not ${fn === null ? 'null' : typeof fn}`);
    const { served, declared } = markFunction(this, fn, this.#served(fn, schema, route), route);
    if (declared.isClass && route !== undefined)
      throw this.#broken(`the route ${route.method} ${route.path} must have a function, and ${declared.name} is a class`);
    if (declared.isClass && schema !== undefined) throw this.#broken('a schema validates the input of a function, not of a class');
    this.#functions.push(declared);
    return served;
  }

  #served(fn: AnyFunction, schema: StandardSchema | undefined, route: FunctionDeclaration['route']): AnyFunction {
    if (isForeign(this.name)) return stubOfDeclared(fn, schema !== undefined, this.name, route);
    return schema === undefined ? fn : checking(fn, schema);
  }

  #broken(rule: string): DeclarationError {
    return new DeclarationError(`endpoint ${this.name}: ${rule}`);
  }
}

type RouteArguments = readonly [fn: AnyFunction] | readonly [options: RouteOptions, fn: AnyFunction];

/**
 * Declares a queue-based endpoint of one function or class, and returns the function or class. @throws DeclarationError
 */
export function endpoint<S extends StandardSchema, R>(
  settings: EndpointSettings & { readonly schema: S },
  fn: (input: OutputOf<S>, context: JobContext) => R,
): Checked<S, R>;
export function endpoint<F extends AnyFunction>(settings: EndpointSettings, fn: F): F;
/** Declares a load-balanced endpoint of a web application or of a command. */
export function endpoint(
  settings: EndpointSettings & ({ readonly app: string | object } | { readonly command: readonly string[] }),
): Declaration;
export function endpoint(settings: EndpointSettings & { readonly schema?: StandardSchema }, fn?: AnyFunction): AnyFunction | Declaration {
  const declared = new Declaration(settings);
  const { app, command } = declared.settings;
  if (fn === undefined && (app !== undefined || command.length > 0)) return declared;
  return declared.serve(fn as AnyFunction, settings.schema);
}

/** The function with its schema. Its parameter is called `input`, so that a worker passes the whole input. */
function checking(fn: AnyFunction, schema: StandardSchema): AnyFunction {
  const call = fn as (input: unknown, context: unknown) => unknown;
  const checked = function (input: unknown, context: unknown): unknown {
    return withChecked(schema, input, (value) => call(value, context));
  };
  Object.defineProperty(checked, 'name', { value: fn.name });
  return checked;
}
