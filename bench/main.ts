/**
 * `npm run bench`: the real processes against a bare echo in the same run (bench/README.md).
 *
 *   --rounds 3 --seconds 5 --warmup 1   number of rounds; duration of each load and warm-up, s
 *   --connections 64                    open connections, for both subjects
 *   --only runParked,runConsumed,runsync,start,store
 *   --depths 1000,1000000               waiting rows of the store's cycles
 *   --folder <folder>                   parent of the data folder (default: the system's temporary folder)
 *   --start-jobs 1000                   jobs of each measurement of the start latency
 *   --results <folder>                  folder of the document (default: bench/results)
 *   --json                              the document on stdout, the table on stderr
 *
 * The document also goes to <results>/<time>.json. Exits with 1 if any response was an error.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { startEcho } from './echo/reference.ts';
import { makeReport, renderReport } from './report.ts';
import { loadNames, runRounds, type RoundsResult } from './rounds.ts';
import { startStack } from './stack.ts';
import { measureStore } from './store-cycles.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    warmup: { type: 'string', default: '1' },
    connections: { type: 'string', default: '64' },
    only: { type: 'string', default: [...loadNames, 'start', 'store'].join(',') },
    depths: { type: 'string', default: '1000,1000000' },
    'start-jobs': { type: 'string', default: '1000' },
    folder: { type: 'string' },
    results: { type: 'string', default: join(import.meta.dirname, 'results') },
    json: { type: 'boolean', default: false },
  },
});
const wanted = new Set(values.only.split(','));
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const connections = Number(values.connections);
const progress = (line: string): void => console.error(`=> ${line}`);

async function measureStack(): Promise<RoundsResult | null> {
  const loads = loadNames.filter((name) => wanted.has(name));
  const startJobs = wanted.has('start') ? Number(values['start-jobs']) : 0;
  if (loads.length === 0 && startJobs === 0) return null;
  const echo = await startEcho();
  try {
    progress('starting the stack');
    const stack = await startStack(values.folder);
    try {
      return await runRounds(stack, echo.url, {
        rounds,
        load: { connections, durationMs: seconds * 1000, warmupMs: Number(values.warmup) * 1000 },
        loads,
        startJobs,
        progress,
      });
    } finally {
      await stack.close();
    }
  } finally {
    await echo.close();
  }
}

const at = new Date().toISOString();
const machine = { cpu: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length, node: process.versions.node, load: loadavg() };
const measured = await measureStack();
if (wanted.has('store')) progress('store alone');
const store = wanted.has('store') ? await measureStore({ seconds, rounds, depths: values.depths.split(',').map(Number) }) : null;
const report = makeReport({ at, machine, options: { connections, seconds, rounds } }, measured, store);

const document = `${JSON.stringify(report, null, 2)}\n`;
await mkdir(values.results, { recursive: true });
await writeFile(join(values.results, `${at.replaceAll(':', '-')}.json`), document);
if (values.json) process.stdout.write(document);
(values.json ? console.error : console.log)(renderReport(report));
if (report.errors > 0) process.exitCode = 1;
