/**
 * The functions that every runtime must run alike, once in each language, and what may differ
 * between the languages: the words of their own libraries.
 */
import { stripTypeScriptTypes } from 'node:module';

import { PYTHON_FUNCTIONS } from './functions-python.ts';
import { TYPESCRIPT_FUNCTIONS } from './functions-typescript.ts';

export interface Language {
  /** The build: its functions are in the module `main`. */
  readonly build: Readonly<Record<string, string>>;
  /** A build whose `main` cannot be loaded ("cannot start") and whose `other` has no function. */
  readonly broken: Readonly<Record<string, string>>;
  /** A build with what needs more than its types stripped: `measured(name, n)` is `<name> <n> m`. Absent in what is not TypeScript's. */
  readonly typed?: Readonly<Record<string, string>>;
  /** A module that is not there. */
  readonly missing: string;
  /** Why the values of the functions `big` and `cycle` are no JSON. */
  readonly noJson: { readonly big: string; readonly cycle: string };
  /** An error that nothing catches, beside the handler, ends the process. */
  readonly strayErrorEnds: boolean;
}

/**
 * The same functions as TypeScript's, without their types: a host takes three times as long with its first TypeScript module,
 * so that is a case of its own.
 */
export const javascript: Language = {
  build: { 'main.js': stripTypeScriptTypes(TYPESCRIPT_FUNCTIONS) },
  broken: { 'main.js': 'throw new Error("cannot start");', 'other.js': 'export const value = 1;' },
  typed: {
    'main.ts': `
import type { Unused } from './nowhere.ts';
enum Unit { Metre = 'm' }
class Length { constructor(readonly name: string, private readonly n: number) {} toString(): string { return this.name + ' ' + this.n + ' ' + Unit.Metre; } }
export function measured(name: string, n: number): string { return String(new Length(name, n)); }
`,
  },
  missing: 'nowhere',
  noJson: { big: 'result.big: a value of the type RegExp has no JSON form', cycle: 'result.a: it contains itself' },
  strayErrorEnds: true,
};

export const typescript: Language = {
  ...javascript,
  build: { 'main.ts': TYPESCRIPT_FUNCTIONS },
  broken: { 'main.ts': 'throw new Error("cannot start");', 'other.ts': 'export const value = 1;' },
};

export const python: Language = {
  build: { 'main.py': PYTHON_FUNCTIONS },
  broken: { 'main.py': 'raise Exception("cannot start")', 'other.py': 'value = 1' },
  missing: 'nowhere.py',
  noJson: { big: 'result: a value of the type complex has no JSON form', cycle: 'result.a: it contains itself' },
  strayErrorEnds: false,
};
