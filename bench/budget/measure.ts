/**
 * What a request costs a part of the real service, by stage (stages.ts): processor time from a sampled profile, and
 * allocated bytes from a second one. The processor time is the part's own count, read in windows; the window with the
 * least is stated, because whatever else runs on the machine only adds to it.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';

import { runLoad } from '../driver/load.ts';
import { prepareRequest, type PreparedRequest } from '../driver/request.ts';
import { median } from '../figures.ts';
import { startStack, waitForHealth, type Stack } from '../stack.ts';
import { Probes } from './probes.ts';
import { bytesOf, sharesOf, STAGES, type Stage } from './stages.ts';

export type Part = 'gateway' | 'scheduler';

export const BUDGET_LOADS = ['run, no consumer', 'run, consumed', 'runsync'] as const;
export type BudgetLoad = (typeof BUDGET_LOADS)[number];

export interface StageCost {
  readonly us: number;
  readonly bytes: number;
}

export interface LoadBudget {
  readonly requests: number;
  readonly errors: number;
  /** Processor time of the main thread for a request, µs: the least and the median of the windows. */
  readonly mainUs: number;
  readonly mainMedianUs: number;
  /** The same of all threads of the process. */
  readonly processUs: number;
  /** `us`: the stage's share of `mainUs`. */
  readonly stages: Readonly<Partial<Record<Stage, StageCost>>>;
}

export interface Budget {
  readonly bench: 'budget';
  readonly part: Part;
  readonly at: string;
  readonly machine: { readonly cpu: string; readonly cores: number; readonly node: string; readonly load: readonly number[] };
  readonly connections: number;
  readonly loads: Readonly<Record<BudgetLoad, LoadBudget>>;
}

export interface BudgetOptions {
  readonly part: Part;
  readonly connections: number;
  readonly windows: number;
  /** Length of a window, s. */
  readonly seconds: number;
}

const BODY = JSON.stringify({ input: { text: 'x'.repeat(170), n: 1 } });
const ENDPOINTS: Readonly<Record<BudgetLoad, readonly [endpoint: string, operation: string]>> = {
  'run, no consumer': ['bench-parked', 'run'],
  'run, consumed': ['bench-noop', 'run'],
  runsync: ['bench-noop', 'runsync'],
};
/** Code that is not compiled yet is another subject: windows before the recording. */
const WARMUP_WINDOWS = 2;

/** Starts the real service, loads it and removes it again. */
export async function measureBudget(options: BudgetOptions): Promise<Budget> {
  const at = new Date().toISOString();
  const machine = { cpu: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length, node: process.versions.node, load: loadavg() };
  const folder = await mkdtemp(join(tmpdir(), 'capstan-budget-'));
  const probes = new Probes(folder);
  await probes.listen();
  try {
    const stack = await startStack(folder, undefined, probes.env);
    try {
      const loads: Partial<Record<BudgetLoad, LoadBudget>> = {};
      for (const name of BUDGET_LOADS) loads[name] = await measureLoad({ stack, probes, options }, name);
      return {
        bench: 'budget',
        part: options.part,
        at,
        machine,
        connections: options.connections,
        loads: loads as Record<BudgetLoad, LoadBudget>,
      };
    } finally {
      await stack.close();
    }
  } finally {
    probes.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Subject {
  readonly stack: Stack;
  readonly probes: Probes;
  readonly options: BudgetOptions;
}

async function measureLoad({ stack, probes, options }: Subject, name: BudgetLoad): Promise<LoadBudget> {
  const { part, windows, connections, seconds } = options;
  const [endpoint, operation] = ENDPOINTS[name];
  const id = stack.endpoints.get(endpoint);
  if (id === undefined) throw new Error(`the stack has no endpoint ${endpoint}`);
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const request = prepareRequest({ url: `${stack.url}/v2/${id}/${operation}`, headers, body: BODY });
  const isDone = async (): Promise<void> => {
    if (endpoint === 'bench-parked') return;
    await waitForHealth(stack, id, 'all accepted jobs have ended', ({ jobs }) => jobs.inQueue === 0 && jobs.inProgress === 0);
  };
  const runWindow = async (): Promise<Window> => {
    const before = await probes.request(part, 'usage');
    const { sent, errors } = await loadFor(request, connections, seconds);
    // A consumed job costs until it has ended.
    await isDone();
    const after = await probes.request(part, 'usage');
    return { sent, errors, main: after.mainUs - before.mainUs, process: after.processUs - before.processUs };
  };
  if (endpoint !== 'bench-parked') await waitForHealth(stack, id, 'a worker is idle', ({ workers }) => workers.idle > 0);
  for (let at = 0; at < WARMUP_WINDOWS; at += 1) await runWindow();

  await probes.request(part, 'cpu');
  const measured: Window[] = [];
  for (let at = 0; at < windows; at += 1) measured.push(await runWindow());
  const { cpu } = await probes.request(part, 'stop');
  await probes.request(part, 'heap');
  const allocating = await runWindow();
  const { heap } = await probes.request(part, 'stop');
  if (cpu === undefined || heap === undefined) throw new Error(`the ${part} sent no profile`);

  const mainUs = Math.min(...measured.map(({ main, sent }) => main / sent));
  const shares = sharesOf(cpu);
  const bytes = bytesOf(heap);
  const costOf = (stage: Stage): StageCost => ({
    us: (shares.get(stage) ?? 0) * mainUs,
    bytes: (bytes.get(stage) ?? 0) / allocating.sent,
  });
  return {
    requests: measured.reduce((sum, { sent }) => sum + sent, 0),
    errors: [...measured, allocating].reduce((sum, { errors }) => sum + errors, 0),
    mainUs,
    mainMedianUs: median(measured.map(({ main, sent }) => main / sent)),
    processUs: Math.min(...measured.map(({ process: all, sent }) => all / sent)),
    stages: Object.fromEntries(STAGES.filter((stage) => shares.has(stage) || bytes.has(stage)).map((stage) => [stage, costOf(stage)])),
  };
}

interface Window {
  readonly sent: number;
  readonly errors: number;
  readonly main: number;
  readonly process: number;
}

function loadFor(request: PreparedRequest, connections: number, seconds: number): ReturnType<typeof runLoad> {
  return runLoad(request, { connections, durationMs: seconds * 1000, warmupMs: 0 });
}
