/** The declarations of this process, in order, for the build and the development server. */
import { DeclarationError } from './errors.ts';
import type { DeclaredEndpoint, FunctionDeclaration } from './functions.ts';

/** One list for all copies of this package in the process: each bundle of a user's file has its own copy. */
const KEY = Symbol.for('capstan.declarations');

function list(): DeclaredEndpoint[] {
  const holder = globalThis as { [KEY]?: DeclaredEndpoint[] };
  holder[KEY] ??= [];
  return holder[KEY];
}

export function register(declaration: DeclaredEndpoint): void {
  list().push(declaration);
}

/** Returns all endpoints declared so far. */
export function declarations(): readonly DeclaredEndpoint[] {
  return [...list()];
}

/** Drops all declarations, before files are loaded again. */
export function forgetDeclarations(): void {
  list().length = 0;
}

/**
 * Checks the rules over all declarations of an application: names of endpoints and of functions are unique.
 * @throws DeclarationError with both places.
 */
export function checkApplication(declared: Iterable<DeclaredEndpoint>): void {
  const endpoints = new Map<string, DeclaredEndpoint>();
  const functions = new Map<string, FunctionDeclaration>();
  for (const each of declared) {
    const other = endpoints.get(each.name);
    if (other !== undefined)
      throw new DeclarationError(`the endpoint ${each.name} is declared twice: at ${other.place} and at ${each.place}`);
    endpoints.set(each.name, each);
    for (const declared of each.functions) {
      const { name, fn, place } = declared;
      if (name === '') continue;
      const first = functions.get(name);
      // One function may serve several routes.
      if (first !== undefined && first.fn !== fn)
        throw new DeclarationError(
          `the function ${name} is defined twice: at ${first.place} and at ${place}; names must be unique in an application`,
        );
      functions.set(name, declared);
    }
  }
}
