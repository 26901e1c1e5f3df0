#!/usr/bin/env node
/**
 * The `capstan` command. The sources need Node 22.18 or newer. On an older Node it starts the Node of the dependencies,
 * or prints in one line what is missing. Plain JavaScript without local imports, so that every Node can parse it.
 */
import { spawn, spawnSync } from 'node:child_process';
import module from 'node:module';
import { constants } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('./main.ts', import.meta.url));
const root = fileURLToPath(new URL('..', import.meta.url));
// Stripping types and compiling take half of a start; the processes of this installation share the cached result.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/compile', import.meta.url));
/** The exit code of OLD_NODE in lib/errors.ts. */
const OLD_NODE = 78;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major > 22 || (major === 22 && minor >= 18)) {
  module.enableCompileCache();
  await import(main);
} else {
  const bundled = bundledNode();
  if (bundled === undefined) {
    console.error(
      `✗ Capstan requires Node.js 22.18 or newer, but this is ${process.version}: install Node.js 24, or run npm install again without --omit=optional`,
    );
    process.exitCode = OLD_NODE;
  } else handOver(bundled);
}

/** The Node of the dependencies: in this folder, or beside it where npm puts the dependencies of an installed package. */
function bundledNode() {
  const folders = [join(root, 'node_modules')];
  if (basename(dirname(root)) === 'node_modules') folders.push(dirname(root));
  return folders.map((folder) => join(folder, '.bin/node')).find((path) => spawnSync(path, ['--version']).status === 0);
}

/**
 * Runs the command on the bundled Node and ends with its exit code or signal. The channel tells the command when this
 * process has ended. Under npm this process watches its shell, as terminal/end-signals.ts does.
 */
function handOver(node) {
  const parent = process.ppid;
  const child = spawn(node, ['--', main, ...process.argv.slice(2)], { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  if (process.env.npm_lifecycle_event) {
    const timer = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(timer);
      child.kill('SIGTERM');
    }, 500).unref();
  }
  child.on('error', (error) => {
    console.error(`✗ cannot run ${node}: ${error.message}`);
    process.exitCode = 71;
  });
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0);
  });
}
