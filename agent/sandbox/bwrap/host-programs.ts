/** The interpreters of this host and what belongs to them, which a sandbox needs when they are not below /usr. */
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { z } from 'zod';

import { isWithin } from './arguments.ts';

const TIMEOUT_MS = 20_000;
/**
 * `executable` is what a script of pyenv or asdf ends up at; the prefixes hold its library, also those of an environment, whose packages
 * may be links to those of another one.
 */
const FACTS = `
import json, os, sys
within = [path for path in sys.path if path.startswith(sys.prefix + os.sep) and os.path.isdir(path)]
links = [entry.path for path in within for entry in os.scandir(path) if entry.is_symlink()]
print(json.dumps({
    "executable": sys.executable,
    "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix],
    "linked": sorted({os.path.dirname(os.path.realpath(path)) for path in links}),
}))`;
const facts = z.object({ executable: z.string(), prefixes: z.array(z.string()), linked: z.array(z.string()) });
/** Variables that name certificates. Those of the host only: a tenant names no file of it. */
const NAMES_FILES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE'];
/** Present in every sandbox. */
const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

export interface HostPrograms {
  readonly node: string;
  /** Python's path, to be run instead of the name; undefined without Python. */
  readonly python: string | undefined;
  /** Folders for PATH inside, in order. */
  readonly path: readonly string[];
  /** Files and folders to be made visible. */
  readonly reads: readonly string[];
}

/** `env`: the host's part of the workers' environment. `node`: the executable of this process. */
export async function findHostPrograms(env: Readonly<Record<string, string>>, node: string = process.execPath): Promise<HostPrograms> {
  const python = await pythonOf(env);
  const outside = [node, ...python].filter((path) => path !== '' && !isWithin(path, '/usr') && existsSync(path));
  const [executable] = python;
  const bin = executable === undefined || isWithin(executable, '/usr') ? [] : [dirname(executable)];
  const listed = (env['PATH'] ?? '').split(delimiter).filter((path) => isWithin(path, '/usr') || SYSTEM_PATH.includes(path));
  const named = NAMES_FILES.map((name) => env[name] ?? '').filter((path) => path.startsWith('/'));
  return {
    node,
    python: executable,
    path: [...new Set([...bin, ...listed, ...SYSTEM_PATH])],
    reads: [...new Set([...outside.flatMap((path) => [path, realpathSync(path)]), ...named])],
  };
}

async function pythonOf(env: Readonly<Record<string, string>>): Promise<string[]> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['-c', FACTS], { env, timeout: TIMEOUT_MS });
    const { executable, prefixes, linked } = facts.parse(JSON.parse(stdout));
    // A prefix of `/` or `/opt` would show far more than Python.
    const own = prefixes.filter((path) => path.startsWith('/') && existsSync(join(path, 'lib')) && path !== '/');
    return executable.startsWith('/') ? [executable, ...own, ...linked] : [];
  } catch {
    // A host without Python is a normal case: its inventory says so.
    return [];
  }
}
