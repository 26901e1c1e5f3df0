/**
 * `capstan build`: discovers the declarations, groups them by endpoint, generates a handler file for each, writes the
 * manifest, installs the packages and packs the artifact.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { readlink, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { discover } from '../discovery/discover.ts';
import type { DeclaredApplication, DeclaredEndpoint } from '../discovery/declared.ts';
import {
  mustBeFolder,
  publishManifest,
  readApplication,
  removePublishedManifest,
  specOf,
  writtenManifest,
  type Application,
} from '../application/application.ts';
import { packArtifact, removeArtifact, TOOL_FOLDER, type Artifact, type Layer } from '../artifact/artifact.ts';
import { checkSize } from '../artifact/artifact-size.ts';
import { checkNames, FORMER_IGNORE_FILE, IGNORE_FILE, listFiles } from '../artifact/files.ts';
import { dotEnvNotice, ownSettingsNotice, recordedLookUp, secretPaths, withEnvFile, type EnvFile } from '../application/env-file.ts';
import { MANIFEST_NAME, readManifest } from '../artifact/manifest.ts';
import { artifactFacts, writeBuildFacts, type BuildFacts } from '../application/build-facts.ts';
import { createActivity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { buildCommands, builtCopy } from './build-step.ts';
import { checkCommands } from './command-check.ts';
import { commandLayers } from './command-packages.ts';
import type { GeneratedFile } from '../artifact/generated.ts';
import { nodeHandler, nodeServer, type NodeModules } from './handlers-node.ts';
import { pythonHandler, pythonServer } from './handlers-python.ts';
import { importedNames } from './imports.ts';
import { emptyRequirements, installPackages, type InstallOptions } from './packages.ts';
import { missingModules, missingOfWritten } from './missing-modules.ts';
import { unknownGpus } from './hardware.ts';
import { manifestOf } from './manifest.ts';
import { projectScripts } from './project-scripts.ts';
import { nodeSdk, pythonSdk } from './sdk-files.ts';

export interface BuildOptions extends InstallOptions {
  /** Keeps `.tool/.build`. */
  readonly keepStaging: boolean;
  /** Variables for every endpoint: `--env-file`. */
  readonly envFile?: EnvFile | undefined;
  /** Runs once the endpoints are known, before packages are installed; what it throws ends the build. */
  readonly admit?: () => Promise<void>;
}

export interface Built {
  readonly application: Application;
  readonly artifact: Artifact;
}

/**
 * Removes the output of an earlier build first, so that a failed build leaves nothing to deploy.
 * @throws CapstanError INVALID_MANIFEST, INVALID_ARCHIVE or CONFIG, with the place and the rule.
 */
export async function build(folder: string, options: BuildOptions, terminal: Terminal): Promise<Built> {
  await mustBeFolder(folder);
  await Promise.all([removeArtifact(folder), removePublishedManifest(folder)]);
  const { lookUp, names } = recordedLookUp(options.lookUp);
  const declared = await discover(folder, lookUp);
  for (const text of declared.warnings) terminal.warn(text);
  if (existsSync(join(folder, FORMER_IGNORE_FILE)))
    terminal.warn(`${FORMER_IGNORE_FILE} is read as ${IGNORE_FILE} is; rename it, as both count where both exist`);
  const recording = { ...options, lookUp };
  const built =
    declared.endpoints.length === 0 ? await buildWritten(folder, recording, terminal) : await buildDeclared(declared, recording, terminal);
  for (const text of [...built.application.warnings, ...unknownGpus(built.application)]) terminal.warn(text);
  for (const text of built.artifact.leftOut) terminal.warn(`excluded: ${text}`);
  const { envFile } = options;
  const notice = envFile === undefined ? dotEnvNotice(folder, names) : ownSettingsNotice(envFile);
  if (notice !== undefined) terminal.warn(notice);
  return envFile === undefined ? built : { ...built, application: withEnvFile(built.application, envFile) };
}

/** A folder with a hand-written manifest. */
async function buildWritten(folder: string, options: BuildOptions, terminal: Terminal): Promise<Built> {
  const { keepStaging, exclude, admit } = options;
  const application = await readApplication(folder);
  await admit?.();
  const layers = await commandLayers(application, options, terminal);
  if (exclude.length > 0 && layers.length === 0)
    terminal.warn(`--exclude: has no effect, because a written ${MANIFEST_NAME} installs no packages`);
  for (const text of await missingOfWritten(application, layers, exclude)) terminal.warn(text);
  const scripts = await projectScripts(folder, existsSync(join(folder, 'src')) ? ['src'] : []);
  const commands = application.endpoints.filter(({ spec }) => spec.command.length > 0 && spec.imageName === '').map(({ spec }) => spec);
  const path = options.lookUp('PATH') ?? '';
  for (const text of await checkCommands({ folder, commands, layers, generated: scripts, path })) terminal.warn(text);
  const generatedFiles = [...(await emptyRequirements(folder)), ...scripts];
  const secrets = secretPaths(folder, options.envFile);
  const artifact = await packArtifact(folder, application.published, { keepStaging, layers, generated: generatedFiles, secrets });
  await publishManifest(folder, application.published);
  return { application, artifact };
}

async function buildDeclared(declared: DeclaredApplication, options: BuildOptions, terminal: Terminal): Promise<Built> {
  const { folder, endpoints } = declared;
  const written = await writtenManifest(folder);
  const [first] = endpoints;
  if (written?.path === join(folder, TOOL_FOLDER, MANIFEST_NAME)) {
    // Output of a version before endpoints were declared in code: that folder belongs to the build.
    terminal.warn(`${TOOL_FOLDER}/${MANIFEST_NAME} is replaced: the endpoints are declared in the sources`);
    await rm(written.path);
  } else if (written !== null)
    throw new ToolError(
      'INVALID_MANIFEST',
      `endpoints are declared in the sources (${first?.place ?? ''}) and in ${written.path}`,
      'Remove one of the two: declared endpoints need no manifest.',
    );
  await options.admit?.();
  const activity = createActivity(terminal);
  const copy = buildCommands(declared).length === 0 ? undefined : await builtCopy(declared, activity).finally(() => activity.end());
  try {
    return await buildFrom(copy?.folder ?? folder, declared, options, terminal);
  } finally {
    await copy?.remove();
  }
}

/** `source`: the project's folder, or a copy of it that holds what its build command made. */
async function buildFrom(source: string, declared: DeclaredApplication, options: BuildOptions, terminal: Terminal): Promise<Built> {
  const { folder, endpoints } = declared;
  const handlers = await handlersOf(declared);
  const secrets = secretPaths(folder, options.envFile);
  const facts: BuildFacts = { version: '1', project_name: basename(folder), source_fingerprint: await fingerprintOf(source, secrets) };
  const packages = await installPackages(declared, options, terminal);
  for (const text of await missingModules(declared, packages, options.exclude)) terminal.warn(text);
  const scripts = declared.pythonVersion === null ? [] : await projectScripts(folder, declared.pythonRoots);
  const commands = endpoints
    .filter(({ settings }) => settings.image === undefined)
    .map(({ name, settings: { command } }) => ({ name, command }));
  const toCheck = commands.filter(({ command }) => command.length > 0);
  const path = options.lookUp('PATH') ?? '';
  const { layers } = packages;
  for (const text of await checkCommands({ folder: source, commands: toCheck, layers, generated: scripts, path })) terminal.warn(text);
  const manifest = manifestOf(endpoints, {
    packages: packages.promised,
    python: packages.compiledFor,
    handlers: handlers.paths,
  });
  const { published, endpoints: read, warnings } = readManifest(JSON.stringify(manifest), MANIFEST_NAME);
  const activity = createActivity(terminal);
  activity.begin('packing files');
  const artifact = await packArtifact(source, published, {
    output: folder,
    generated: [...handlers.files, ...packages.files, ...scripts, ...(await sdkFiles(endpoints)), artifactFacts(facts)],
    layers: packages.layers satisfies readonly Layer[],
    // Packages installed for this machine may not fit the hosts.
    skip: (_name, path) => path === 'node_modules/@capstan/sdk' || (path === 'node_modules' && packages.replacesNodeModules),
    secrets,
    keepStaging: options.keepStaging,
    packing: (done, total) => activity.at(done, total),
  }).finally(() => activity.end());
  await publishManifest(folder, published);
  await writeBuildFacts(folder, facts, published);
  const application: Application = {
    folder,
    published,
    warnings,
    endpoints: read.map((endpoint) => {
      const functions = functionsOf(endpoints, endpoint.name, handlers.paths.get(endpoint.name) ?? '');
      const { requiresPython = [] } = endpoints.find(({ name }) => name === endpoint.name) ?? {};
      return { spec: specOf(endpoint, functions), functions, requiresPython };
    }),
  };
  return { application, artifact };
}

async function handlersOf({
  folder,
  endpoints,
  rules,
  pythonRoots,
}: DeclaredApplication): Promise<{ files: GeneratedFile[]; paths: Map<string, string> }> {
  const nodeFiles = new Set(endpoints.filter(({ language }) => language === 'node').map(({ file }) => file));
  const imported = nodeFiles.size > 1 ? await importedNames(folder, nodeFiles, rules) : new Map<string, Set<string>>();
  const files: GeneratedFile[] = [];
  const paths = new Map<string, string>();
  for (const endpoint of endpoints) {
    if (endpoint.functions.length === 0 && endpoint.app === null) continue;
    const made = generated(endpoint, endpoints, { imported, rules, roots: pythonRoots });
    files.push(...made);
    paths.set(endpoint.name, made[0]?.path ?? '');
  }
  return { files, paths };
}

/** The file that a worker of the endpoint loads or runs comes first. */
function generated(
  endpoint: DeclaredEndpoint,
  all: readonly DeclaredEndpoint[],
  modules: NodeModules & { readonly roots: readonly string[] },
): GeneratedFile[] {
  const { language, app } = endpoint;
  if (language === 'python')
    return app === null ? pythonHandler(endpoint, all, modules.roots) : pythonServer(endpoint, app, { all, roots: modules.roots });
  return app === null ? nodeHandler(endpoint, all, modules) : nodeServer(endpoint, app, all, modules);
}

function functionsOf(endpoints: readonly DeclaredEndpoint[], name: string, module: string): Application['endpoints'][number]['functions'] {
  const { functions = [] } = endpoints.find((each) => each.name === name) ?? {};
  return functions
    .filter((each, index) => functions.findIndex((other) => other.name === each.name) === index)
    .map(({ name: own, reading, isClass, methods }) => ({
      name: own,
      module,
      ...reading,
      ...(isClass ? { methods: Object.entries(methods).map(([method, each]) => ({ name: method, ...each.reading })) } : {}),
    }));
}

async function sdkFiles(endpoints: readonly DeclaredEndpoint[]): Promise<GeneratedFile[]> {
  const uses = (language: string): boolean => endpoints.some((each) => each.language === language);
  return [...(uses('python') ? await pythonSdk() : []), ...(uses('node') ? await nodeSdk() : [])];
}

/**
 * Returns the hash of the application's own files; installed and generated files do not count.
 * @throws CapstanError INVALID_ARCHIVE when they alone are too large, before any of them is read and anything installed.
 */
async function fingerprintOf(folder: string, secrets: readonly string[]): Promise<string> {
  const { entries } = await listFiles(folder, { skip: (name) => name === 'node_modules', secrets });
  checkNames(entries);
  await checkSize({
    root: folder,
    entries: entries.map(({ path, stat }) => ({ path, name: path, stat })),
    packages: [],
    packedBytes: 0,
    limit: ARTIFACT_LIMITS.bytes,
  });
  const hash = createHash('sha256');
  for (const { path, stat } of entries) {
    const digest = createHash('sha256');
    if (stat.isSymbolicLink()) digest.update(await readlink(join(folder, path)));
    else await pipeline(createReadStream(join(folder, path)), digest);
    hash.update(`${path}\0${digest.digest('hex')}\n`);
  }
  return hash.digest('hex');
}
