/** Facts about a declared function or class, for the build, the worker and the stubs. */
import { placeOfCaller } from './caller.ts';
import type { RouteMethod } from './routes.ts';

/** Any function or class. */
// oxlint-disable-next-line typescript/no-explicit-any -- the only type that every function and class fits
export type AnyFunction = ((...args: any[]) => unknown) | (new (...args: any[]) => object);

/** The endpoint of a function, as its functions and the registry see it. */
export interface DeclaredEndpoint {
  readonly name: string;
  /** The place of the declaration, `file:line`; empty when unknown. */
  readonly place: string;
  readonly functions: readonly FunctionDeclaration[];
  /** The entry under `resources` of the manifest. */
  resource(): Record<string, unknown>;
}

export interface FunctionDeclaration {
  readonly endpoint: DeclaredEndpoint;
  /** The function as declared, without its schema. */
  readonly fn: AnyFunction;
  /** The function that a worker calls, which also validates by the schema. */
  readonly served: AnyFunction;
  /** Its own name; empty for an anonymous function, which is named after its export. */
  readonly name: string;
  readonly isAsync: boolean;
  readonly isClass: boolean;
  /** Of a load-balanced endpoint. */
  readonly route: { readonly method: RouteMethod; readonly path: string } | undefined;
  /** The place of the declaration, `file:line`; empty when unknown. */
  readonly place: string;
}

/** The same symbol in every copy of this package: each bundle has its own copy. */
const MARK = Symbol.for('capstan.function');

/** Returns the declaration of a function; undefined for any other value. */
export function declarationOf(value: unknown): FunctionDeclaration | undefined {
  if (typeof value !== 'function') return undefined;
  return (value as { readonly [MARK]?: FunctionDeclaration })[MARK];
}

/** Describes `fn` and marks the function that is served in its place, which may be `fn` itself. */
export function markFunction(
  endpoint: DeclaredEndpoint,
  fn: AnyFunction,
  served: AnyFunction,
  route: FunctionDeclaration['route'],
): { readonly served: AnyFunction; readonly declared: FunctionDeclaration } {
  const declared: FunctionDeclaration = {
    endpoint,
    fn,
    served,
    name: fn.name,
    isAsync: /^(AsyncFunction|AsyncGeneratorFunction)$/.test(fn.constructor.name),
    isClass: isClass(fn),
    route,
    place: placeOfCaller(),
  };
  Object.defineProperty(served, MARK, { value: declared, configurable: true });
  return { served, declared };
}

/** True for a class, whose call without `new` throws. */
export function isClass(fn: AnyFunction): boolean {
  return /^class\b/.test(Function.prototype.toString.call(fn));
}
