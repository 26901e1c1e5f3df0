/** Files that a build makes, beside those of the application. */
export interface GeneratedFile {
  /** Place in the artifact, with forward slashes. */
  readonly path: string;
  readonly content: string | Uint8Array;
}

/** Folder in the artifact for what the build generates. */
export const GENERATED = '_capstan';
/** Folder of installed Python packages; the runtimes look there. */
export const PYTHON_PACKAGES = 'python_packages';
