/** What a program that installs Python packages does for a build: uv (`uv-installer.ts`) or pip (`pip-installer.ts`). */

/** Where packages come from, besides the installer's own settings. */
export interface PackageIndexes {
  readonly index: string | undefined;
  readonly extraIndexes: readonly string[];
  readonly findLinks: readonly string[];
  readonly noIndex: boolean;
  /** Pre-releases count. */
  readonly pre: boolean;
}

export const DEFAULT_INDEXES: PackageIndexes = { index: undefined, extraIndexes: [], findLinks: [], noIndex: false, pre: false };

export interface PythonWanted {
  readonly folder: string;
  /** As in a requirements file, in order; paths are absolute. */
  readonly requirements: readonly string[];
  /** Versions that apply if a package is needed, of a lock file. */
  readonly constraints: readonly string[];
  readonly indexes: PackageIndexes;
  /** `3.11`. */
  readonly version: string;
  /** For this machine's Python instead of Linux x86_64. */
  readonly isForHere: boolean;
  /** Packages without a wheel may be built on this machine. */
  readonly mayBuild: boolean;
  /** A folder for files, deleted afterwards. */
  readonly scratch: string;
  /** Without the packages that the requirements need; for uv only. */
  readonly alone?: boolean;
}

export interface ResolvedPackage {
  /** Normalised. */
  readonly name: string;
  /** The exact requirement: `numpy==2.1.0`, `six @ https://…`. */
  readonly requirement: string;
  /** Bytes to download; null when unknown. */
  readonly bytes: number | null;
  /** Not from an index: a path, a URL or a repository. */
  readonly isDirect: boolean;
}

export interface Resolution {
  readonly packages: readonly ResolvedPackage[];
  /** Packages → the packages that they need, by normalised names. */
  readonly needs: ReadonlyMap<string, ReadonlySet<string>>;
  /** Packages that were requested, not only needed by others. */
  readonly roots: readonly string[];
  /** Some have no wheel and are built here. */
  readonly isBuilt: boolean;
}

export interface PythonInstaller {
  readonly name: 'uv' | 'pip';
  /** @throws CapstanError INVALID_MANIFEST with the installer's message, UNAVAILABLE when no index can be reached. */
  resolve(wanted: PythonWanted): Promise<Resolution>;
  /**
   * Installs packages without what they need. A package with hashes (by its exact requirement) must match one of them.
   * @throws as `resolve`
   */
  install(wanted: PythonWanted, order: InstallSpec): Promise<void>;
}

export interface InstallSpec {
  readonly packages: readonly ResolvedPackage[];
  readonly isBuilt: boolean;
  /** `numpy==2.1.0` → `sha256:…`. */
  readonly hashes: ReadonlyMap<string, readonly string[]>;
  readonly target: string;
  /** Receives the name of each package whose download begins or is complete. */
  readonly downloading: (name: string, isComplete: boolean) => void;
}
