/** Adds the SDKs to an artifact, so that a worker installs nothing. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripTypeScriptTypes } from 'node:module';

import { parseSync } from 'oxc-parser';

import { installRoot } from '../../terminal/config.ts';
import { PYTHON_PACKAGES, type GeneratedFile } from '../artifact/generated.ts';

/** The package `capstan`. */
export async function pythonSdk(): Promise<GeneratedFile[]> {
  const folder = join(installRoot, 'sdk/python/capstan');
  const names = (await readdir(folder)).filter((name) => name.endsWith('.py'));
  return Promise.all(
    names.map(async (name) => ({ path: `${PYTHON_PACKAGES}/capstan/${name}`, content: await readFile(join(folder, name)) })),
  );
}

const NODE_SDK = 'node_modules/@capstan/sdk';
/** Folder of what only workers have. */
const WORKER = 'worker';
/** Files that build the package and are not part of it. */
const notShipped = new Set(['build.ts']);

/** The package `@capstan/sdk` in JavaScript, because Node strips no types inside `node_modules`. */
export async function nodeSdk(): Promise<GeneratedFile[]> {
  const folder = join(installRoot, 'sdk/typescript');
  const all = [...(await readdir(folder)), ...(await readdir(join(folder, WORKER))).map((name) => `${WORKER}/${name}`)];
  const names = all.filter((name) => /\.(ts|js)$/.test(name) && !name.endsWith('.d.ts') && !notShipped.has(name));
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
  const files = await Promise.all(
    names.map(async (name) => {
      const source = await readFile(join(folder, name), 'utf8');
      return { path: `${NODE_SDK}/${name.replace(/\.ts$/, '.js')}`, content: name.endsWith('.ts') ? withoutTypes(name, source) : source };
    }),
  );
  const manifest = { name: '@capstan/sdk', version, type: 'module', exports: { '.': './sdk.js', './servers': `./${WORKER}/servers.js` } };
  return [{ path: `${NODE_SDK}/package.json`, content: `${JSON.stringify(manifest, null, 2)}\n` }, ...files];
}

/** Imports are rewritten to the new file names. */
function withoutTypes(name: string, source: string): string {
  const plain = quietly(() => stripTypeScriptTypes(source));
  const { module } = parseSync(name.replace(/\.ts$/, '.js'), plain);
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest),
    ...module.staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest ?? [])),
  ];
  // Replaced from the end, so that the other offsets stay valid.
  const ends = new Set(specifiers.filter(({ value }) => value.startsWith('.') && value.endsWith('.ts')).map(({ end }) => end));
  return [...ends].sort((a, b) => b - a).reduce((text, end) => `${text.slice(0, end - 4)}.js${text.slice(end - 1)}`, plain);
}

/** Suppresses Node's warning that the function is experimental, which users cannot act on. */
function quietly<T>(work: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}
