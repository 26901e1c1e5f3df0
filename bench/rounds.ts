/**
 * The loads, interleaved with the echo: E S1 E S2 E S3 E, several rounds. The speed of a shared machine changes by tens
 * of percent within a minute. Each subject is therefore compared with the mean of the two echo runs around it; the
 * figure is the median of these ratios over the rounds.
 */
import { runLoad, type LoadOptions, type LoadResult } from './driver/load.ts';
import { prepareRequest, type PreparedRequest } from './driver/request.ts';
import { median } from './figures.ts';
import { coresBetween, cpuByRole } from './processes.ts';
import { waitForHealth, type Stack } from './stack.ts';
import { measureStart, type StartLatency } from './start-latency.ts';

/** The same bytes for subject and echo: about 200. */
const BODY = JSON.stringify({ input: { text: 'x'.repeat(170), n: 1 } });

export type LoadName = 'runParked' | 'runConsumed' | 'runsync';
export const loadNames: readonly LoadName[] = ['runParked', 'runConsumed', 'runsync'];

export interface LoadFigure {
  /** Median over the rounds of subject / echo around it. */
  readonly ratio: number;
  readonly ratios: readonly number[];
  /** Median of requests per second. */
  readonly perSecond: number;
  readonly echoPerSecond: number;
  /** Jobs that ended per second, from the first request to the last end; for loads whose jobs workers run. */
  readonly completedPerSecond: number | null;
  /** Cores used by each part during the load, median; empty where the system does not report it. */
  readonly cores: Readonly<Record<string, number>>;
  /** The whole result of each round. */
  readonly runs: readonly LoadResult[];
}

export interface RoundsResult {
  readonly loads: Readonly<Partial<Record<LoadName, LoadFigure>>>;
  readonly echo: readonly LoadResult[];
  readonly start: readonly StartLatency[];
}

export interface RoundsOptions {
  readonly rounds: number;
  readonly load: LoadOptions;
  readonly loads: readonly LoadName[];
  /** Jobs of each measurement of the start latency; 0 skips it. */
  readonly startJobs: number;
  /** Called with the name of each step that begins. */
  readonly progress: (line: string) => void;
}

interface Measured {
  readonly subject: LoadResult;
  readonly echoPerSecond: number;
  readonly completedPerSecond: number | null;
  readonly cores: Readonly<Record<string, number>>;
}

export async function runRounds(stack: Stack, echoUrl: string, options: RoundsOptions): Promise<RoundsResult> {
  const endpoint = (name: string): string => {
    const id = stack.endpoints.get(name);
    if (id === undefined) throw new Error(`the stack has no endpoint ${name}`);
    return id;
  };
  const noop = endpoint('bench-noop');
  const stamp = endpoint('bench-stamp');
  const job = (id: string, operation: string): PreparedRequest =>
    prepareRequest({ url: `${stack.url}/v2/${id}/${operation}`, headers: { authorization: `Bearer ${stack.apiKey}` }, body: BODY });
  const subjects: Record<LoadName, PreparedRequest> = {
    runParked: job(endpoint('bench-parked'), 'run'),
    runConsumed: job(noop, 'run'),
    runsync: job(noop, 'runsync'),
  };
  const reference = prepareRequest({ url: echoUrl, body: BODY });
  for (const id of [noop, stamp]) await waitForHealth(stack, id, 'a worker is idle', (health) => health.workers.idle > 0);

  const measured = new Map<LoadName, Measured[]>(options.loads.map((name) => [name, []]));
  const echo: LoadResult[] = [];
  const start: StartLatency[] = [];
  const runEcho = async (): Promise<number> => {
    options.progress('echo');
    const result = await runLoad(reference, options.load);
    echo.push(result);
    return result.perSecond;
  };
  for (let round = 1; round <= options.rounds; round += 1) {
    options.progress(`round ${round} of ${options.rounds}`);
    if (options.startJobs > 0) {
      options.progress('enqueue → handler start');
      start.push(await measureStart(stack, stamp, options.startJobs, Math.ceil(options.startJobs / 10)));
    }
    let before = options.loads.length > 0 ? await runEcho() : 0;
    for (const name of options.loads) {
      options.progress(name);
      const subject = await runSubject(stack, { name, request: subjects[name], consumer: noop }, options.load);
      const after = await runEcho();
      measured.get(name)?.push({ ...subject, echoPerSecond: (before + after) / 2 });
      before = after;
    }
  }
  const loads = Object.fromEntries([...measured].map(([name, all]) => [name, figureOf(all)]));
  return { loads, echo, start };
}

interface Subject {
  readonly name: LoadName;
  readonly request: PreparedRequest;
  /** The endpoint that receives the jobs. */
  readonly consumer: string;
}

/** Runs one load and removes all work that could affect the next measurement. */
async function runSubject(stack: Stack, { name, request, consumer }: Subject, load: LoadOptions): Promise<Omit<Measured, 'echoPerSecond'>> {
  const consumes = name !== 'runParked';
  const before = consumes ? await waitForHealth(stack, consumer, 'nothing is left to do', isDone) : null;
  const cpuBefore = cpuByRole(stack.pid);
  const startedAt = performance.now();
  const subject = await runLoad(request, load);
  const cores = coresBetween(cpuBefore, cpuByRole(stack.pid), (performance.now() - startedAt) / 1000);
  if (before === null) return { subject, cores, completedPerSecond: null };
  const after = await waitForHealth(stack, consumer, 'all accepted jobs have ended', isDone);
  const seconds = (performance.now() - startedAt) / 1000;
  return { subject, cores, completedPerSecond: (after.jobs.completed - before.jobs.completed) / seconds };
}

function isDone({ jobs }: { jobs: { inQueue: number; inProgress: number } }): boolean {
  return jobs.inQueue === 0 && jobs.inProgress === 0;
}

function figureOf(all: readonly Measured[]): LoadFigure {
  const ratios = all.map(({ subject, echoPerSecond }) => subject.perSecond / echoPerSecond);
  const roles = [...new Set(all.flatMap((one) => Object.keys(one.cores)))];
  const completed = all.flatMap((one) => (one.completedPerSecond === null ? [] : [one.completedPerSecond]));
  return {
    ratio: median(ratios),
    ratios,
    perSecond: median(all.map((one) => one.subject.perSecond)),
    echoPerSecond: median(all.map((one) => one.echoPerSecond)),
    completedPerSecond: completed.length === 0 ? null : median(completed),
    cores: Object.fromEntries(roles.map((role) => [role, median(all.map((one) => one.cores[role] ?? 0))])),
    runs: all.map((one) => one.subject),
  };
}
