/** What is known of a declared function or class: for the build, the worker and the stubs. */
import { placeOfCaller } from './caller.ts';
import type { RouteMethod } from './routes.ts';

/** Any function or class. */
// oxlint-disable-next-line typescript/no-explicit-any -- the only type that every function and class fits
export type AnyFunction = ((...args: any[]) => unknown) | (new (...args: any[]) => object);

/** The endpoint that a function is declared for, as its functions and the registry know it. */
export interface DeclaredEndpoint {
  readonly name: string;
  /** Where it was declared, `file:line`; empty when that is not known. */
  readonly place: string;
  readonly functions: readonly FunctionDeclaration[];
  /** The entry under `resources` of the manifest. */
  resource(): Record<string, unknown>;
}

export interface FunctionDeclaration {
  readonly endpoint: DeclaredEndpoint;
  /** As it was given, without its schema. */
  readonly fn: AnyFunction;
  /** What a worker calls: it checks by the schema, too. */
  readonly served: AnyFunction;
  /** Its own name; empty for a function without one, which goes by the name of its export. */
  readonly name: string;
  readonly isAsync: boolean;
  readonly isClass: boolean;
  /** Of a load-balanced endpoint. */
  readonly route: { readonly method: RouteMethod; readonly path: string } | undefined;
  /** Where it was declared, `file:line`; empty when that is not known. */
  readonly place: string;
}

/** The same in every copy of this package: a bundle holds its own. */
const MARK = Symbol.for('capstan.function');

/** The declaration of a function that was declared; undefined for any other value. */
export function declarationOf(value: unknown): FunctionDeclaration | undefined {
  if (typeof value !== 'function') return undefined;
  return (value as { readonly [MARK]?: FunctionDeclaration })[MARK];
}

/** Describes `fn` and marks what is served in its place, which may be itself. */
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
