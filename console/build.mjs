/**
 * Builds the console into `console/dist`: `npm run console`, and `npm start` after its first result. Installs what that needs in
 * `console/node_modules`, and does nothing if the result is of the present sources.
 *
 *   node console/build.mjs [--force]
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

import { acquireLock } from '../lib/lock.mjs';
import { initialLoad } from './initial-load.mjs';
import { referenceScript } from './reference-script.mjs';

const folder = import.meta.dirname;
const dist = join(folder, 'dist');
const fresh = join(folder, 'dist.new');
const modules = join(folder, 'node_modules');
/** What the console is made of. */
const SOURCES = [
  ...[
    'build.mjs',
    'index.html',
    'initial-load.mjs',
    'reference-script.mjs',
    'package-lock.json',
    'package.json',
    'public',
    'src',
    'vite.config.ts',
  ],
  ...['base-images', 'endpoint-settings', 'exact-json', 'incident-actions', 'pattern-examples', 'schema-examples', 'setting-rules'].map(
    (name) => `../lib/${name}.ts`,
  ),
  '../docs',
];
/** Files that browsers ask for, and that compress. */
const COMPRESSED = /\.(?:js|css|svg)$/;

let npm;
for (const signal of ['SIGINT', 'SIGTERM'])
  process.on(signal, () => {
    npm?.kill(signal);
    process.exit(signal === 'SIGINT' ? 130 : 143);
  });

await build();

async function build() {
  const wanted = hashOf(SOURCES);
  if (!process.argv.includes('--force') && stampOf(dist) === wanted) return;
  const lock = await ownLock();
  try {
    if (!process.argv.includes('--force') && stampOf(dist) === wanted) return; // another build made it meanwhile
    const packages = hashOf(['package-lock.json']);
    if (stampOf(modules) !== packages) {
      await install();
      writeFileSync(join(modules, '.stamp'), packages);
    }
    await bundle();
    compress();
    const { bytes, limit } = initialLoad(fresh);
    process.stdout.write(`the console's first page loads ${Math.ceil(bytes / 1000)} kB of at most ${limit / 1000} kB\n`);
    if (bytes > limit) throw new Error(`the console's first page loads ${bytes} bytes: at most ${limit} are allowed`);
    await referenceScript(join(dist, 'reference'), join(fresh, 'reference'));
    writeFileSync(join(fresh, '.stamp'), wanted);
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
  } finally {
    lock.release();
  }
}

async function ownLock() {
  for (;;) {
    const lock = acquireLock(join(folder, '.build.lock'));
    if ('release' in lock) return lock;
    await new Promise((wake) => setTimeout(wake, 200));
  }
}

function install() {
  const { npm_execpath: script, npm_node_execpath: node } = process.env;
  const viaNode = script !== undefined && /npm-cli\.c?js$/.test(script);
  const [command, first] = viaNode ? [node ?? process.execPath, [script]] : ['npm', []];
  return new Promise((done, fail) => {
    npm = spawn(command, [...first, 'ci', '--no-audit', '--no-fund', '--no-progress', '--ignore-scripts', '--include=dev'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    npm.on('error', fail);
    npm.on('close', (code) => (code === 0 ? done() : fail(new Error(`npm ci ended with exit code ${code}`))));
  });
}

async function bundle() {
  rmSync(fresh, { recursive: true, force: true });
  const vite = await import(join(modules, 'vite/dist/node/index.js'));
  await vite.build({ root: folder, logLevel: 'error', build: { outDir: fresh, emptyOutDir: true } });
}

function compress() {
  for (const name of readdirSync(fresh, { recursive: true })) {
    if (!COMPRESSED.test(name)) continue;
    const file = join(fresh, name);
    const bytes = readFileSync(file);
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  }
}

function hashOf(names) {
  const hash = createHash('sha256');
  for (const name of names) {
    const path = join(folder, name);
    if (!existsSync(path)) continue;
    const files = statSync(path).isDirectory()
      ? readdirSync(path, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
      : [''];
    for (const each of files.map((file) => (file === '' ? path : join(file.parentPath, file.name))).toSorted())
      hash
        .update(`${each.slice(folder.length)}\0`)
        .update(readFileSync(each))
        .update('\0');
  }
  return hash.digest('hex');
}

function stampOf(of) {
  const file = join(of, '.stamp');
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
