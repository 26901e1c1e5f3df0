/**
 * The program behind `npm start`, `npm test`, `npm run bench`, `npm run history`, `npm run sdk`, `npm run console` and `npm run release`:
 * installs what is missing, then runs the command.
 *
 *   node tools/setup.mjs start|test|bench|history|sdk|console|release [arguments of the command]
 *
 * It runs on the system's Node, version 20 or newer, without a dependency; the command runs on the Node of the
 * dependencies. The exit code is that of the command; 130 or 143 when a signal ended it or the set-up.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { acquireLock } from '../lib/lock.mjs';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const modules = join(root, 'node_modules');
const stampFile = join(modules, '.capstan-setup');
/** What `npm ci` must not remove with node_modules: the lock of a set-up, and the caches while it runs. */
const keptFolder = join(root, '.setup');
/** Exit codes of sysexits.h, as in lib/errors.ts. */
const EXIT = { usage: 2, unavailable: 69, config: 78 };

/** The command of each word, and whether it needs the development dependencies. */
const targets = {
  start: { full: false, channel: true, args: ['cli/main.ts', 'start'] },
  test: { full: true, channel: false, args: ['node_modules/ava/entrypoints/cli.js'] },
  bench: { full: true, channel: false, args: ['bench/main.ts'] },
  history: { full: true, channel: false, args: ['test/history/main.ts'] },
  // Declarations need the compiler.
  sdk: { full: true, channel: false, args: ['sdk/typescript/build.ts'] },
  console: { full: false, channel: false, args: ['console/build.mjs'] },
  release: { full: true, channel: false, args: ['--disable-warning=ExperimentalWarning', 'release/main.ts'] },
};

const [word = '', ...rest] = process.argv.slice(2);
const target = Object.hasOwn(targets, word) ? targets[word] : undefined;
let running = null;
let caught = null;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    caught ??= signal;
    running?.(signal);
  });
}

// The scripts of package.json use `exec`, so that npm's signals reach this process: a shell in between keeps SIGINT to
// itself, and SIGTERM ends only the shell. A parent that ended without a signal (npm killed, a shell after all) counts
// as a signal; outside of npm the parent may end, as with nohup.
const parent = process.ppid;
const watch = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(watch);
  process.emit('SIGTERM', 'SIGTERM');
}, 200);
watch.unref();
if (process.env.npm_lifecycle_event === undefined) clearInterval(watch);

if (target === undefined) fail(EXIT.usage, `node tools/setup.mjs: expected ${Object.keys(targets).join(', ')}, got '${word}'`);
else process.exitCode = await setUpAndRun(target);

async function setUpAndRun({ full, channel, args }) {
  const code = await install(full);
  if (code !== 0 || caught !== null) return caught === null ? code : signalCode(caught);
  linkTool();
  const node = findNode();
  if (node === null)
    return fail(EXIT.config, `Capstan requires Node.js 22.18 or newer, but this is ${process.version}`, 'Install Node.js 24.');
  return runTarget(node, [...args, ...rest], channel);
}

// ---------------------------------------------------------------- dependencies

/**
 * Installs the dependencies when they do not match package.json and package-lock.json. Returns the exit code, 0 on
 * success.
 */
async function install(full) {
  if (isInstalled(full)) return 0;
  mkdirSync(keptFolder, { recursive: true });
  const lock = await lockSetup();
  if (lock === null) return signalCode(caught);
  try {
    if (isInstalled(full)) return 0; // another set-up installed them meanwhile
    const withDev = full || readStamp()?.mode === 'full' || hasDevDependencies();
    const wanted = wantedHash();
    console.error(`=> installing dependencies${withDev ? '' : ' (runtime dependencies only)'}`);
    rmSync(stampFile, { force: true });
    keepCaches();
    const code = await runNpm(['ci', '--no-audit', '--no-fund', '--no-progress', ...(withDev ? [] : ['--omit=dev'])]);
    restoreCaches();
    if (code === 0) writeStamp({ hash: wanted, mode: withDev ? 'full' : 'prod' });
    return code;
  } finally {
    lock.release();
  }
}

/** `npm ci` removes node_modules first, and node_modules/.cache holds what took minutes to make. */
function keepCaches() {
  const caches = join(modules, '.cache');
  const kept = join(keptFolder, 'cache');
  if (!existsSync(caches)) return;
  rmSync(kept, { recursive: true, force: true });
  renameSync(caches, kept);
}

/** Those of a set-up that was killed come back with the next one. */
function restoreCaches() {
  const caches = join(modules, '.cache');
  const kept = join(keptFolder, 'cache');
  if (!existsSync(kept) || existsSync(caches)) return;
  mkdirSync(modules, { recursive: true });
  renameSync(kept, caches);
}

function isInstalled(full) {
  const stamp = readStamp();
  return stamp !== null && stamp.hash === wantedHash() && (stamp.mode === 'full' || !full);
}

function wantedHash() {
  const hash = createHash('sha256');
  for (const file of ['package.json', 'package-lock.json']) {
    const path = join(root, file);
    hash.update(existsSync(path) ? readFileSync(path) : '').update('\0');
  }
  return hash.update(`${process.platform} ${process.arch}`).digest('hex');
}

function readStamp() {
  try {
    const { hash, mode } = JSON.parse(readFileSync(stampFile, 'utf8'));
    return { hash, mode };
  } catch {
    return null; // missing or unreadable: the set-up did not finish
  }
}

function writeStamp(stamp) {
  writeFileSync(`${stampFile}.new`, `${JSON.stringify(stamp)}\n`);
  renameSync(`${stampFile}.new`, stampFile);
}

/** A checkout with the development dependencies keeps them: `npm ci --omit=dev` would remove them. */
function hasDevDependencies() {
  const { devDependencies = {} } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return Object.keys(devDependencies).every((name) => existsSync(join(modules, name, 'package.json')));
}

/** Allows one set-up at a time in a folder; null when a signal arrived while waiting. */
async function lockSetup() {
  const path = join(keptFolder, 'lock');
  let said = false;
  for (;;) {
    if (caught !== null) return null;
    const lock = acquireLock(path);
    if ('release' in lock) return lock;
    if (!said) console.error(`=> waiting for another setup of this folder (process ${lock.heldBy})`);
    said = true;
    await new Promise((wake) => setTimeout(wake, 200));
  }
}

/** Runs npm quietly; prints its output only when it failed. */
function runNpm(args) {
  const { npm_execpath: npmScript, npm_node_execpath: npmNode } = process.env;
  const viaNode = npmScript !== undefined && /npm-cli\.c?js$/.test(npmScript);
  const [command, first] = viaNode ? [npmNode ?? process.execPath, [npmScript]] : ['npm', []];
  return new Promise((done) => {
    const said = [];
    // A separate process group, so that a signal ends npm with every process it started.
    const npm = spawn(command, [...first, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    running = (signal) => {
      killGroup(npm.pid, signal);
      // npm cleans up for many seconds; the next set-up installs again in any case.
      setTimeout(() => npm.exitCode ?? killGroup(npm.pid, 'SIGKILL'), 2000).unref();
    };
    npm.stdout.on('data', (chunk) => said.push(chunk));
    npm.stderr.on('data', (chunk) => said.push(chunk));
    npm.on('error', (error) => {
      running = null;
      done(fail(EXIT.unavailable, `cannot run npm: ${error.message}`));
    });
    npm.on('close', (code, signal) => {
      running = null;
      if (caught !== null) return done(signalCode(caught));
      if (code === 0) return done(0);
      process.stderr.write(Buffer.concat(said));
      return done(fail(code ?? signalCode(signal), 'npm ci failed', 'See its messages above; fix the cause and run the command again.'));
    });
  });
}

function killGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** npm links only the commands of dependencies; this links the package's own: `npx capstan` in the checkout. */
function linkTool() {
  const link = join(modules, '.bin', 'capstan');
  const to = join('..', '..', 'cli', 'capstan.mjs');
  const present = lstatSync(link, { throwIfNoEntry: false });
  if (present?.isSymbolicLink() && readlinkSync(link) === to) return;
  const fresh = `${link}.${process.pid}`;
  symlinkSync(to, fresh);
  renameSync(fresh, link);
}

// ---------------------------------------------------------------- the command

/** Returns the Node of the dependencies if it exists for this platform, else this Node if it is new enough. */
function findNode() {
  const bundled = join(modules, '.bin', 'node');
  if (spawnSync(bundled, ['--version']).status === 0) return bundled;
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 18) ? process.execPath : null;
}

/**
 * Ctrl+C may reach this process alone, or the whole group and then this process once more through npm. So every signal
 * is passed on, and `start` counts signals that arrive together as one. If it has a channel, it also ends when this
 * process ends without a signal.
 */
function runTarget(node, args, channel) {
  return new Promise((done) => {
    const env = {
      // Stripping types and compiling take half of a start; processes share the cached result.
      NODE_COMPILE_CACHE: join(modules, '.cache', 'compile'),
      ...process.env,
      PATH: `${join(modules, '.bin')}${delimiter}${process.env.PATH ?? ''}`,
    };
    const child = spawn(node, args, { cwd: root, env, stdio: ['inherit', 'inherit', 'inherit', ...(channel ? ['ipc'] : [])] });
    running = (signal) => child.kill(signal);
    if (caught !== null) child.kill(caught);
    child.on('error', (error) => done(fail(EXIT.unavailable, `cannot run ${node}: ${error.message}`)));
    child.on('exit', (code, signal) => done(code ?? signalCode(signal)));
  });
}

function signalCode(signal) {
  return 128 + (constants.signals[signal] ?? 0);
}

function fail(code, message, hint) {
  console.error(`✗ ${message}`);
  if (hint !== undefined) console.error(`hint: ${hint}`);
  process.exitCode = code;
  return code;
}
