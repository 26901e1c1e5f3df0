/** The result of discovery in an application's sources, in either language. */
import type { CapstanError } from '../../lib/errors.ts';
import type { Reading } from '../signatures/parameters.ts';
import type { LoaderRules } from './loader-rules.ts';
import type { CheckedSettings } from '../../sdk/typescript/settings.ts';

export type Language = 'python' | 'node';

export interface DeclaredMethod {
  readonly isGenerator: boolean;
  readonly isAsync: boolean;
  readonly reading: Reading;
}

/** A function or class that an endpoint serves. */
export interface DeclaredFunction extends DeclaredMethod {
  readonly name: string;
  /** False for a function that only its declaration holds; a worker gets it from the declaration. */
  readonly isExported: boolean;
  readonly isClass: boolean;
  /** Public methods of a class; empty for a function. */
  readonly methods: Readonly<Record<string, DeclaredMethod>>;
  /** Of a load-balanced endpoint. */
  readonly route: { readonly method: string; readonly path: string } | null;
  /** `file:line`. */
  readonly place: string;
}

export interface DeclaredEndpoint {
  readonly name: string;
  readonly language: Language;
  /** Relative to the application's folder. */
  readonly file: string;
  /** `file:line`. */
  readonly place: string;
  readonly settings: CheckedSettings;
  /**
   * In the order of declaration; empty for an image with its own program. A function with several routes occurs several
   * times.
   */
  readonly functions: readonly DeclaredFunction[];
  /** Top-level names of the packages that its file imports, and the file of its application. */
  readonly imports: readonly string[];
  /** Versions of Python that headers of its files require (PEP 723). */
  readonly requiresPython?: readonly { readonly file: string; readonly versions: string }[];
  /** The web application that it serves; null for functions, a command or an image. */
  readonly app: DeclaredApp | null;
}

/** Where a worker finds a web application. */
export interface DeclaredApp {
  /** Relative to the application's folder; null when the declaration itself holds it. */
  readonly file: string | null;
  /**
   * The name in that file, with dots for attributes and `()` for a function that makes it; empty for the default: in
   * Node its default export, an export `app`, or its own listening.
   */
  readonly name: string;
}

export interface NeededModule {
  readonly language: Language;
  /** A top-level module of Python, or an npm package. */
  readonly name: string;
  /** `file:line`, where it is first imported. */
  readonly place: string;
}

export interface DeclaredApplication {
  /** Absolute. */
  readonly folder: string;
  readonly endpoints: readonly DeclaredEndpoint[];
  /** Version of the Python that read the sources, `3.11`; null when no source is Python. */
  readonly pythonVersion: string | null;
  /** Folders that Python imports start from besides the application's own, relative to it: `src`. */
  readonly pythonRoots: readonly string[];
  /** Modules that its sources import, and that neither the project nor the language has. */
  readonly needed: readonly NeededModule[];
  /** How handlers in Node load the files. */
  readonly rules: LoaderRules;
  /** Warnings. */
  readonly warnings: readonly string[];
}

/** Why the declarations of a file cannot be used. */
export interface FileError {
  /** Relative to the application's folder. */
  readonly file: string;
  /** INVALID_MANIFEST with file, line and rule. */
  readonly error: CapstanError;
}
