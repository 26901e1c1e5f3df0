/** Runs uv, pip or npm, and reports its message when it fails. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { readEnvironment } from '../../terminal/config.ts';
import { listFiles } from '../artifact/files.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** Output beyond is dropped, characters. */
const MAX_OUTPUT = 64 * 1024 * 1024;

export interface Ended {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd: string;
  /** Receives each line of its messages as it appears. */
  readonly onLine?: (line: string) => void;
  /** Added to the environment of the tool. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Written to its standard input. */
  readonly input?: string;
}

/** @throws CapstanError CONFIG when the program does not exist. */
export async function runInstaller(program: string, args: readonly string[], options: RunOptions): Promise<Ended> {
  const { cwd, onLine, input = '', variables = {} } = options;
  const env = { ...readEnvironment().variables, ...variables };
  const child = spawn(program, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (stdout.length < MAX_OUTPUT) stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < MAX_OUTPUT) stderr += text;
  });
  for (const stream of [child.stdout, child.stderr])
    if (onLine !== undefined) createInterface({ input: stream, crlfDelay: Infinity }).on('line', onLine);
  // A program that cannot start closes its pipe before anything is written to it.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT')
        reject(new ToolError('CONFIG', `${program} is required to install packages, and was not found`, `Install ${program}.`));
      else reject(error);
    });
    child.on('close', (code) => resolve({ ok: code === 0, stdout, stderr }));
  });
}

/** Returns the last lines that describe the error. */
export function faultOf({ stderr, stdout }: Ended): string {
  const lines = `${stderr}\n${stdout}`
    .split('\n')
    .filter((line) => /error|no matching|could not/i.test(line) && !line.startsWith('npm http '));
  return lines
    .slice(0, 4)
    .map((line) => line.replace(/^(ERROR|npm (ERR!|error)):?\s*/i, ''))
    .join('\n  ');
}

/**
 * Returns the SHA-256 of a file, or of a folder's files that an artifact would have, hex; null when neither exists.
 * @throws CapstanError INVALID_ARCHIVE for a folder with a link that leads out of it.
 */
export async function digestOf(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null); // no file: the requirement is not a path
  if (found === null) return null;
  const hash = createHash('sha256');
  if (!found.isDirectory()) return hash.update(await readFile(path)).digest('hex');
  const { entries } = await listFiles(path, { skip: (name) => name === 'node_modules' });
  for (const each of entries) {
    const content = each.stat.isFile() ? await readFile(join(path, each.path)) : '';
    hash.update(`${each.path}\0${createHash('sha256').update(content).digest('hex')}\n`);
  }
  return hash.digest('hex');
}
