/**
 * Runs the service under load and faults, records what clients and handlers see, and checks the two histories:
 *
 *   npm run history -- --minutes 30 --seed 7 --rate 100 --faults kill,pause,cut
 *
 * The exit code is 1 when a rule is violated, 2 for a wrong option.
 */
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { messageOf } from '../../lib/to-error.ts';
import { ownFolder } from '../support/own-folder.ts';
import { NO_POSTGRES, postgresBinaries } from '../support/postgres-binaries.ts';
import { Calls } from './clients/calls.ts';
import { Deliveries } from './clients/deliveries.ts';
import { Load } from './clients/load.ts';
import { check } from './core/check.ts';
import { FaultDriver } from './faults/driver.ts';
import type { FaultKind } from './faults/fault.ts';
import { hasOwnMounts, runWithOwnMounts } from './faults/own-mounts.ts';
import { needsOwnMounts, prepareFaults, whyNot, type Prepared } from './faults/sources.ts';
import { readOptions, USAGE, type Options } from './options.ts';
import { readHistory, Recorder } from './recorder.ts';
import { figures, violationReport } from './report.ts';
import { Bystanders, TraceSink } from './soak/bystanders.ts';
import { Sampler } from './soak/sampler.ts';
import { HistoryStack, type StackSettings } from './stack/stack.ts';

/** For lives under way after the last fault: they wait for jobs through restarts, retries and webhooks. */
const DRAIN_MS = 90_000;
/** Two more tries of a webhook, 10 s apart, and what a restart adds, ms. */
const WEBHOOKS_MS = 35_000;
/** For parts to come back after the last fault, and for the last looks at all jobs. */
const HEAL_MS = 60_000;
const LAST_LOOKS_MS = 180_000;
const LOOK_AGAIN_MS = 20_000;
const SETTLE_MS = 20_000;
/** Shown of the log of a part that ended by itself. */
const CRASH_LINES = 30;
/** So short that memory and disk reach their level within minutes. */
const SOAK_RETENTION = { runRetentionMs: 60_000, runsyncRetentionMs: 60_000, idempotencyRetentionMs: 60_000 };

async function main(): Promise<number> {
  let options: Options;
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${messageOf(error)}\n${USAGE}`);
    return 2;
  }
  if (options.check !== undefined) return report(options.check, true);
  if (needsOwnMounts(options.faults) && !hasOwnMounts()) return runWithOwnMounts();
  const folder = options.out ?? (await ownFolder('capstan-histories'));
  await mkdir(folder, { recursive: true });
  await Promise.all(['clients.jsonl', 'handlers.jsonl'].map((name) => rm(join(folder, name), { force: true })));
  console.log(`=> ${options.minutes} minutes, ${options.rate} requests/s, --seed ${options.seed}`);
  await run(options, folder);
  return report(folder, options.out !== undefined);
}

async function run(options: Options, folder: string): Promise<void> {
  const possible: FaultKind[] = [];
  for (const kind of options.faults) {
    const reason = whyNot(kind);
    if (reason === undefined) possible.push(kind);
    else console.log(`! no faults of the kind ${kind}: ${reason}`);
  }
  const prepared = prepareFaults(possible, folder);
  const recorder = new Recorder(folder);
  try {
    await runStack(options, prepared, recorder);
  } finally {
    prepared.close();
    await recorder.close();
  }
}

async function runStack(options: Options, prepared: Prepared, recorder: Recorder): Promise<void> {
  let faults: FaultDriver | undefined;
  let closing = false;
  const traces = options.soak ? await TraceSink.open() : undefined;
  const settings = { ...prepared.settings, ...(await cluster(options)), ...soakSettings(prepared.settings, traces) };
  const stack = await HistoryStack.start(settings, (part, how, log) => {
    if (closing || faults?.explains(part) === true) return;
    recorder.record({ kind: 'crash', part, how });
    console.log(`! the ${part} ended by itself: ${how}; the end of its log:\n${lastLines(log, CRASH_LINES)}`);
  });
  try {
    const secret = (await stack.capstan('webhooks', 'secret', 'get')).trim();
    const deliveries = await Deliveries.open(recorder, secret, options.seed);
    const calls = new Calls(stack, recorder);
    const { gateways, endpoints } = stack;
    const load = new Load(
      { calls, gateways, endpoints, handlersFile: recorder.handlersFile, webhook: deliveries.url, longestPauseMs: LOOK_AGAIN_MS },
      options,
    );
    faults = new FaultDriver(stack, recorder, prepared.sources, options);
    const { runRetentionMs, runsyncRetentionMs } = settings.retention;
    const promises = { endpoints: stack.promises(), runRetentionMs, runsyncRetentionMs };
    recorder.record({ kind: 'settings', ...promises, settleMs: SETTLE_MS, clockStepMs: prepared.clockStepMs });
    load.start();
    faults.start();
    const sampler = new Sampler(stack);
    const bystanders = new Bystanders(stack);
    if (options.soak) {
      sampler.start();
      bystanders.start();
    }
    await pause(options.minutes * 60_000);
    await sampler.stop();
    await bystanders.stop();
    await faults.stop(HEAL_MS);
    if (options.soak) {
      for (const line of [...sampler.report(), ...bystanders.report(), `exports of traces: ${traces?.exports ?? 0}`]) console.log(line);
      await sampler.write(join(recorder.folder, 'samples.json'));
    }
    if (!(await load.stop(DRAIN_MS))) console.log('! some jobs had no end when the wait was over');
    await pause(WEBHOOKS_MS);
    if (!(await load.lookAtAll(gateways[0] ?? '', LAST_LOOKS_MS))) console.log('! the last looks at jobs took too long, and were ended');
    recorder.record({ kind: 'end' });
    await calls.close();
    await load.stop(DRAIN_MS);
    await deliveries.close();
  } finally {
    closing = true;
    await stack.close(join(recorder.folder, 'logs'));
    traces?.close();
  }
}

function lastLines(file: string, count: number): string {
  return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-count).join('\n');
}

/** Short retention, and traces for a receiver that drops them; nothing without a soak. */
function soakSettings(settings: StackSettings, traces: TraceSink | undefined): Partial<StackSettings> {
  if (traces === undefined) return {};
  const { variables } = traces;
  return { retention: SOAK_RETENTION, observesHeaps: true, env: (part) => ({ ...settings.env(part), ...variables }) };
}

/** What several schedulers need. */
async function cluster({ schedulers }: Options): Promise<Pick<StackSettings, 'schedulers' | 'postgres'>> {
  if (schedulers === 1) return { schedulers, postgres: undefined };
  const postgres = await postgresBinaries();
  if (postgres === undefined) throw new Error(`--schedulers ${schedulers}: ${NO_POSTGRES}`);
  return { schedulers, postgres };
}

async function report(folder: string, isKept: boolean): Promise<number> {
  const records = await readHistory(folder);
  for (const line of figures(records)) console.log(line);
  const violations = check(records);
  if (violations.length === 0) {
    console.log('✓ no rule is violated');
    if (!isKept) await rm(folder, { recursive: true, force: true });
    return 0;
  }
  const lines = violationReport(records, violations);
  await writeFile(join(folder, 'violations.txt'), `${lines.join('\n')}\n`);
  for (const line of lines) console.log(line);
  console.log(`\n✗ ${violations.length} violations; the histories are kept in ${folder}`);
  return 1;
}

process.exitCode = await main();
