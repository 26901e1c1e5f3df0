/** Reads a folder as an application: its manifest, and the functions that it names, from their sources. */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { fieldsOf, messageFields } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { decodeText } from '../../terminal/text-file.ts';
import { isGenerated, removeBuildFacts } from './build-facts.ts';
import { EXAMPLE } from '../discovery/discover.ts';
import { hasDockerfile, offerFor } from './offers.ts';
import { readNodeImports } from '../discovery/node-imports.ts';
import { TOOL_FOLDER } from '../artifact/artifact.ts';
import { classSpecOf } from '../signatures/class-methods.ts';
import { readFunctions, type ReadFunction } from './functions.ts';
import { withinLimit, withoutSamples } from '../signatures/parameters.ts';
import { MANIFEST_NAME, readManifest, type ManifestEndpoint } from '../artifact/manifest.ts';

export interface ApplicationEndpoint {
  readonly spec: EndpointSpec;
  readonly functions: readonly ReadFunction[];
  /** `requires-python` in headers of its scripts. */
  readonly requiresPython?: readonly { readonly file: string; readonly versions: string }[];
}

export interface Application {
  /** Absolute. */
  readonly folder: string;
  readonly endpoints: readonly ApplicationEndpoint[];
  /** The manifest as stored in the artifact. */
  readonly published: string;
  /** Warnings about the manifest. */
  readonly warnings: readonly string[];
}

/**
 * Reads a folder with a manifest; nothing in it is run.
 * @throws CapstanError INVALID_MANIFEST with the place and the rule, NOT_FOUND when the folder does not exist.
 */
export async function readApplication(folder: string): Promise<Application> {
  await mustBeFolder(folder);
  const found = await writtenManifest(folder);
  if (found === null) throw await noEndpoint(folder);
  const manifest = readManifest(found.text, relative(folder, found.path));
  const endpoints: ApplicationEndpoint[] = [];
  const modules = new Set<string>();
  for (const endpoint of manifest.endpoints) {
    const functions = await readFunctions(folder, endpoint);
    endpoints.push({ spec: specOf(endpoint, functions), functions });
    for (const { module } of functions) if (!module.endsWith('.py')) modules.add(module);
  }
  await mustLoad(folder, [...modules]);
  return { folder, endpoints, published: manifest.published, warnings: manifest.warnings };
}

async function noEndpoint(folder: string): Promise<ToolError> {
  const offer = await offerFor(folder);
  const message = `no endpoint in ${folder}: no source declares one, and the folder has no ${MANIFEST_NAME}`;
  if (offer !== undefined) {
    const lines = offer.text.trim().replaceAll('\n', '\n    ');
    return new ToolError(
      'INVALID_MANIFEST',
      `${message}; it has ${offer.found}`,
      `\`capstan init --here\` writes ${offer.file} with:\n    ${lines}`,
    );
  }
  if (!(await hasDockerfile(folder))) return new ToolError('INVALID_MANIFEST', message, EXAMPLE);
  return new ToolError(
    'INVALID_MANIFEST',
    `${message}; it has a Dockerfile`,
    'Push its image to a registry, and name that in a file endpoints.py:\n    from capstan import Endpoint\n    Endpoint(name="app", image="registry.example/app:1", load_balanced=True)',
  );
}

/** Only the generated handlers of declared endpoints load what Node alone does not. */
async function mustLoad(folder: string, files: readonly string[]): Promise<void> {
  if (files.length === 0) return;
  const { rules, errors } = await readNodeImports(folder, files);
  const [first] = errors;
  if (first !== undefined) throw first.error;
  const reason = [...rules.values()].find((rule) => rule.reason !== undefined)?.reason;
  if (reason !== undefined)
    throw new ToolError(
      'INVALID_MANIFEST',
      reason,
      'With a written manifest, imports name files in full (./lib.ts) and mark types (import type); or declare the endpoints in the sources.',
    );
}

/** `.tool/tool_manifest.json`, unless that manifest is hand-written. */
export async function publishManifest(folder: string, published: string): Promise<void> {
  const target = join(folder, TOOL_FOLDER, MANIFEST_NAME);
  if ((await writtenManifest(folder))?.path === target) return;
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, published);
}

/** Removes the manifest that an earlier build generated; a hand-written one remains. */
export async function removePublishedManifest(folder: string): Promise<void> {
  const target = join(folder, TOOL_FOLDER, MANIFEST_NAME);
  const text = await readFile(target, 'utf8').catch(() => ''); // absent or not readable: the build reports it
  if (await isGenerated(folder, text)) await rm(target, { force: true });
  await removeBuildFacts(folder);
}

/** Returns the hand-written manifest; null when there is none. A generated one does not count. */
export async function writtenManifest(folder: string): Promise<{ path: string; text: string } | null> {
  for (const path of [join(folder, MANIFEST_NAME), join(folder, TOOL_FOLDER, MANIFEST_NAME)]) {
    try {
      const text = decodeText(await readFile(path), relative(folder, path));
      if (path === join(folder, TOOL_FOLDER, MANIFEST_NAME) && (await isGenerated(folder, text))) continue;
      return { path, text };
    } catch (cause) {
      if (cause instanceof CapstanError) throw cause;
      const code = errnoOf(cause) ?? String(cause);
      if (code !== 'ENOENT' && code !== 'ENOTDIR')
        throw new ToolError('INVALID_MANIFEST', `cannot read ${path} (${code})`, 'Check its permissions.', { cause });
    }
  }
  return null;
}

/** @throws CapstanError NOT_FOUND, or INVALID_ARGUMENT for a file. */
export async function mustBeFolder(folder: string): Promise<void> {
  let isFolder: boolean;
  try {
    isFolder = (await stat(folder)).isDirectory();
  } catch (cause) {
    throw new ToolError('NOT_FOUND', `folder ${folder} does not exist`, 'Specify the folder that contains the application.', {
      field: 'folder',
      cause,
    });
  }
  if (!isFolder)
    throw new ToolError('INVALID_ARGUMENT', `${folder} is not a folder`, 'Specify the folder that contains the application.', {
      field: 'folder',
    });
}

/** Converts an endpoint to the form that the scheduler receives. */
export function specOf(endpoint: ManifestEndpoint, functions: readonly ReadFunction[]): EndpointSpec {
  return {
    name: endpoint.name,
    kind: endpoint.kind === 'queue' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
    ...messageFields(fieldsOf(endpoint)),
    functions: withinLimit(
      functions.map(({ name, module, style, parameters, description, methods }) => ({
        name,
        module,
        callStyle: style,
        parameters: withoutSamples(parameters),
        ...(description === undefined ? {} : { description }),
        ...classSpecOf(module, methods),
      })),
    ),
    env: { ...endpoint.env },
    routes: { ...endpoint.routes },
    rateLimits: { ...endpoint.rateLimits },
  };
}
