/** Files that a build generates besides those of the application. */
export interface GeneratedFile {
  /** Path in the artifact, with forward slashes. */
  readonly path: string;
  readonly content: string | Uint8Array;
  /** May be run. */
  readonly isProgram?: boolean;
}

/** Folder in the artifact for generated files. */
export const GENERATED = '_capstan';
/** Folder of installed Python packages, where the runtimes look for them. */
export const PYTHON_PACKAGES = 'python_packages';
