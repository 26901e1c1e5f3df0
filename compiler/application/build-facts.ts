/**
 * What a build of declared endpoints knows about itself, beside the manifest, which has `resources` and `routes` only:
 * `_capstan/build.json` in the artifact, and `.tool/build.json`, which also says when the build was and which manifest it
 * generated.
 */
import { createHash } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { TOOL_FOLDER } from '../artifact/artifact.ts';
import { GENERATED, type GeneratedFile } from '../artifact/generated.ts';

const NAME = 'build.json';
/** Manifests of versions before `build.json` have this key if a build generated them. */
const FORMER_MARK = '"source_fingerprint"';

/** The same for the same files, so that the digest of the artifact is. */
export interface BuildFacts {
  readonly version: '1';
  readonly project_name: string;
  /** SHA-256 over the application's own files, hex. */
  readonly source_fingerprint: string;
}

const generatedSchema = z.object({ manifest_sha256: z.string() });

export function artifactFacts(facts: BuildFacts): GeneratedFile {
  return { path: `${GENERATED}/${NAME}`, content: `${JSON.stringify(facts, null, 2)}\n` };
}

/** `manifest` is the text of `.tool/tool_manifest.json`. */
export async function writeBuildFacts(folder: string, facts: BuildFacts, manifest: string): Promise<void> {
  const local = { ...facts, generated_at: new Date().toISOString(), manifest_sha256: digestOf(manifest) };
  await writeFile(join(folder, TOOL_FOLDER, NAME), `${JSON.stringify(local, null, 2)}\n`);
}

export async function removeBuildFacts(folder: string): Promise<void> {
  await rm(join(folder, TOOL_FOLDER, NAME), { force: true });
}

/** Returns true for the manifest that the last build generated; one that somebody wrote or edited is theirs. */
export async function isGenerated(folder: string, manifest: string): Promise<boolean> {
  if (manifest.includes(FORMER_MARK)) return true;
  // Absent or damaged: no build says that the manifest is its own.
  const text = await readFile(join(folder, TOOL_FOLDER, NAME), 'utf8').catch(() => '');
  if (text === '') return false;
  try {
    const facts = generatedSchema.safeParse(JSON.parse(text));
    return facts.success && facts.data.manifest_sha256 === digestOf(manifest);
  } catch {
    return false;
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
