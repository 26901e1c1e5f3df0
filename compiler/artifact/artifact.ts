/** Packs a folder, the generated files and the installed packages into `.tool/artifact.tar.gz`. */
import { copyFile, lstat, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { moveUnsynced } from '../../lib/durable.ts';
import { TooLarge, writeArchive, writeMember, type ArchiveEntry } from './archive.ts';
import type { GeneratedFile } from './generated.ts';
import { checkSize, foldersOf, tooLarge, type Sized } from './artifact-size.ts';
import { checkNames, listFiles } from './files.ts';
import { MANIFEST_NAME } from './manifest.ts';

/** Folder for the tool's output, inside the application's folder. */
export const TOOL_FOLDER = '.tool';
export const ARTIFACT = `${TOOL_FOLDER}/artifact.tar.gz`;
const STAGING = `${TOOL_FOLDER}/.build`;

/** Installed packages, packed once. */
export interface Layer {
  /** File of its archive member. */
  readonly member: string;
  readonly files: number;
  /** Unpacked bytes by package. */
  readonly packages: Readonly<Record<string, number>>;
  /** Names of the programs of the packages; absent in layers of earlier versions. */
  readonly programs?: readonly string[] | undefined;
}

export interface Artifact {
  readonly path: string;
  /** SHA-256 of its bytes, hex. */
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  readonly files: number;
  readonly leftOut: readonly string[];
  /** Largest first. */
  readonly contents: readonly Content[];
}

/** A file, or an installed package with all its files. */
export interface Content {
  readonly name: string;
  /** Bytes, unpacked. */
  readonly size: number;
}

export interface ArtifactParts {
  /** Not counting the manifest. */
  readonly generated?: readonly GeneratedFile[];
  readonly layers?: readonly Layer[];
  /** Selects files of the folder to leave out, by name and path. */
  readonly skip?: (name: string, path: string) => boolean;
  /** Files of variables, left out unless `.toolignore` includes them; relative to the folder. */
  readonly secrets?: readonly string[];
  readonly keepStaging?: boolean;
  /** Folder that gets the artifact, when it is another than the packed one. */
  readonly output?: string;
  /** Receives the bytes of the folder's files that are packed, and all of them. */
  readonly packing?: (done: number, total: number) => void;
  /** Bytes. */
  readonly limit?: number;
}

/** Removes the artifact of an earlier build, so that a failed build leaves no artifact of other sources. */
export async function removeArtifact(folder: string): Promise<void> {
  await rm(join(folder, ARTIFACT), { force: true });
}

/**
 * Packs the folder with the manifest. A generated file replaces a file of the folder with the same path.
 * @throws CapstanError INVALID_ARCHIVE when it exceeds the limit or contains what an artifact must not.
 */
export async function packArtifact(folder: string, manifest: string, parts: ArtifactParts = {}): Promise<Artifact> {
  const { generated = [], layers = [], keepStaging = false, limit = ARTIFACT_LIMITS.bytes, output = folder, secrets = [] } = parts;
  const { entries, leftOut } = await listFiles(folder, { secrets, ...(parts.skip === undefined ? {} : { skip: parts.skip }) });
  checkNames(entries);
  const staging = join(folder, STAGING);
  await rm(staging, { recursive: true, force: true });
  try {
    const staged = await stage(folder, [...generated, { path: MANIFEST_NAME, content: manifest }]);
    const taken = new Set(staged.map(({ name }) => name));
    const own = entries.filter(({ path }) => !taken.has(path)).map(({ path, stat }) => ({ path, name: path, stat }));
    const member = join(folder, TOOL_FOLDER, 'application.member');
    const unfinished = join(folder, TOOL_FOLDER, 'artifact.unfinished');
    const packed = await Promise.all(layers.map(async (layer) => (await stat(layer.member)).size));
    await checkSize({
      root: folder,
      entries: [...own, ...staged],
      packages: packagesOf(layers),
      packedBytes: packed.reduce((sum, bytes) => sum + bytes, 0),
      limit,
    });
    try {
      await writeMember(folder, [...own, ...staged], member, parts.packing);
      const written = await writeArchive([member, ...layers.map((layer) => layer.member)], unfinished, limit);
      const path = join(output, ARTIFACT);
      await mkdir(dirname(path), { recursive: true });
      // Another folder may be on another file system.
      if (output === folder) await moveUnsynced(unfinished, path);
      else await copyFile(unfinished, path);
      const files = own.length + staged.length + layers.reduce((sum, layer) => sum + layer.files, 0);
      return { path, ...written, files, leftOut, contents: contentsOf([...own, ...staged], layers) };
    } catch (error) {
      if (error instanceof TooLarge) throw tooLarge(limit, [...packagesOf(layers), ...foldersOf(own)]);
      throw error;
    } finally {
      await Promise.all([rm(member, { force: true }), rm(unfinished, { force: true })]);
    }
  } finally {
    if (!keepStaging) await rm(staging, { recursive: true, force: true });
  }
}

async function stage(folder: string, files: readonly GeneratedFile[]): Promise<ArchiveEntry[]> {
  const staged: ArchiveEntry[] = [];
  for (const { path: name, content, isProgram = false } of files) {
    const path = `${STAGING}/${name}`;
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content, { mode: isProgram ? 0o755 : 0o644 });
    staged.push({ path, name, stat: await lstat(join(folder, path)) });
  }
  return staged;
}

function contentsOf(own: readonly ArchiveEntry[], layers: readonly Layer[]): Content[] {
  const sizes = new Map<string, number>();
  for (const layer of layers) for (const [name, bytes] of Object.entries(layer.packages)) sizes.set(name, bytes);
  for (const { name, stat } of own) {
    const [top = name, second] = name.split('/');
    const key = second !== undefined && /^(node_modules|python_packages)$/.test(top) ? second : name;
    sizes.set(key, (sizes.get(key) ?? 0) + stat.size);
  }
  return [...sizes].map(([name, size]) => ({ name, size })).sort((a, b) => b.size - a.size || (a.name < b.name ? -1 : 1));
}

function packagesOf(layers: readonly Layer[]): Sized[] {
  return layers.flatMap(({ packages }) => Object.entries(packages).map(([name, size]) => ({ name, size })));
}
