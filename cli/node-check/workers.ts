/** The part of `capstan node check` that starts workers: the check of a GPU host (deploy/gpu-check) on a service of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { z } from 'zod';

import type { NodeCheckRow } from '../../agent/node-check.ts';
import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { installRoot } from '../../terminal/config.ts';

export interface WorkersCheck {
  /** Of the agent's settings and of this process. */
  readonly variables: NodeJS.ProcessEnv;
  /** Where the report goes. */
  readonly out: string;
  /** s. */
  readonly limit: number;
  /** Levels of isolation, separated by commas; absent: all. */
  readonly levels?: string;
}

/** What the service of the check takes of the agent's settings: how it finds GPUs and engines, never whose node it is. */
const TAKEN = /^(?!CAPSTAN_|OTEL_|SERVICE_)|^CAPSTAN_(?:NVIDIA_|CONTAINER_|SANDBOX_|KERNEL_LOG$|INVENTORY_|GPU_|REGISTRY_|WORKER_NETWORK)/;
/** After its limit it ends by itself, s. */
const GRACE_S = 30;
/** From a request to end until it is killed: it ends its service and removes its image, s. */
const END_S = 25;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface WorkersOutcome {
  readonly rows: readonly NodeCheckRow[];
  /** The signal that ended the check early. */
  readonly endedBy: NodeJS.Signals | undefined;
}

const reportSchema = z.object({
  rows: z.array(z.object({ check: z.string(), result: z.enum(['pass', 'fail', 'skip']), value: z.string(), bar: z.string() })),
});

/** Runs the check, which prints its table to stderr. A signal to this process ends it; until it has ended, none ends this process. */
export async function checkWorkers({ variables, out, limit, levels }: WorkersCheck): Promise<WorkersOutcome> {
  const program = ['main.ts', 'main.js'].map((name) => join(installRoot, 'deploy/gpu-check', name)).find((path) => existsSync(path));
  if (program === undefined) throw new CapstanError('INTERNAL', 'this installation lacks deploy/gpu-check');
  await mkdir(out, { recursive: true });
  const report = join(out, 'gpu-check.json');
  await rm(report, { force: true });
  let endedBy: NodeJS.Signals | undefined;
  let end: (signal: NodeJS.Signals) => void = () => undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (endedBy !== undefined) return;
    endedBy = signal;
    end(signal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  // Workers with user ids of their own pass through this folder.
  const work = await mkdtemp(join(tmpdir(), 'capstan-gpu-check.'));
  try {
    const tool = ['--tool', process.argv[1] ?? join(installRoot, 'cli/main.ts')];
    const args = [
      program,
      ...tool,
      '--work',
      work,
      '--out',
      out,
      '--limit',
      String(limit),
      ...(levels === undefined ? [] : ['--levels', levels]),
    ];
    const env = Object.fromEntries(Object.entries(variables).filter(([name]) => TAKEN.test(name)));
    const child = spawn('/bin/sh', ['-c', 'umask 022; chmod 755 "$1"; shift; exec "$@"', 'sh', work, process.execPath, ...args], {
      env,
      // Its table is for people; the rows are data.
      stdio: ['ignore', 2, 2],
      // A group of its own: a signal of the terminal reaches it and its service once, from here.
      detached: true,
    });
    let killing: NodeJS.Timeout | undefined;
    end = (signal) => {
      child.kill(signal);
      killing ??= setTimeout(() => killGroup(child.pid), END_S * 1_000);
    };
    if (endedBy !== undefined) end(endedBy);
    const timer = setTimeout(() => end('SIGTERM'), (limit + GRACE_S) * 1_000);
    const [code] = (await once(child, 'exit').finally(() => {
      clearTimeout(timer);
      clearTimeout(killing);
    })) as [number | null];
    // What it had started beside its service.
    if (killing !== undefined) killGroup(child.pid);
    const rows = await rowsOf(report);
    // A check that ended before its first row has said why.
    const isSilent = rows.length === 0 || (code !== 0 && rows.every(({ result }) => result !== 'fail'));
    const silent: NodeCheckRow = { check: 'workers', result: 'fail', value: `the check ended with ${String(code)}`, hint: '' };
    return { rows: isSilent ? [...rows, silent] : rows, endedBy };
  } finally {
    // A process that has just been killed may be writing still.
    await rm(work, { recursive: true, force: true, maxRetries: 3 });
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // it has ended, as a whole
  }
}

async function rowsOf(report: string): Promise<NodeCheckRow[]> {
  try {
    const { rows } = reportSchema.parse(JSON.parse(await readFile(report, 'utf8')));
    return rows.map(({ check, result, value, bar }) => ({
      check,
      result,
      value,
      hint: result === 'fail' && bar !== '' ? `It must be: ${bar}.` : '',
    }));
  } catch (error) {
    return [{ check: 'workers', result: 'fail', value: `no report: ${messageOf(error)}`, hint: 'See the messages of the check above.' }];
  }
}
