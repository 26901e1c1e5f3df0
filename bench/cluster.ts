/**
 * Several schedulers on PostgreSQL: what callers notice when the owner of the queue fails or stops, and the rate of /run
 * on PostgreSQL against SQLite in the same run.
 *
 *   node bench/cluster.ts [--kills 20] [--pauses 5] [--handovers 5] [--rounds 3] [--seconds 4] [--warmup 3] [--connections 64]
 *
 * The failovers run two schedulers, two gateways and two agents as processes, with the default settings of the service;
 * callers use one gateway. Prints one JSON document per figure.
 */
import { parseArgs } from 'node:util';

import { HistoryStack, plainSettings } from '../test/history/stack/stack.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from '../test/support/postgres.ts';
import { failover, type Failover, type Loss } from './cluster/failover.ts';
import { startEcho } from './echo/reference.ts';
import { median } from './figures.ts';
import { runRounds } from './rounds.ts';
import { startStack, type Stack } from './stack.ts';

/** Of the first job that the next owner completes, and of the longest gap at a handover, ms. */
const floors = { kill: 2_500, pause: 8_000, handover: 1_000 } as const;
const goals = { kill: 1_000, pause: 6_000, handover: 300 } as const;

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '20' },
    pauses: { type: 'string', default: '5' },
    handovers: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    warmup: { type: 'string', default: '3' },
    connections: { type: 'string', default: '64' },
  },
});
const binaries = await postgresBinaries();
if (binaries === undefined) throw new Error(`this bench needs PostgreSQL: ${NO_POSTGRES}`);

const print = (figure: object): void => void process.stdout.write(`${JSON.stringify(figure)}\n`);
const progress = (line: string): void => console.error(`=> ${line}`);

if ([values.kills, values.pauses, values.handovers].some((count) => Number(count) > 0)) await failovers(binaries);
if (Number(values.rounds) > 0) await rates(binaries);

async function failovers(postgres: string): Promise<void> {
  const counts: Readonly<Record<Loss, number>> = {
    kill: Number(values.kills),
    pause: Number(values.pauses),
    handover: Number(values.handovers),
  };
  progress('starting two schedulers');
  const standard = { CAPSTAN_HEARTBEAT_MS: undefined, CAPSTAN_SILENCE_MS: undefined, CAPSTAN_NODE_GRACE_MS: undefined };
  const stack = await HistoryStack.start({ ...plainSettings, schedulers: 2, postgres, env: () => standard }, () => undefined);
  try {
    for (const loss of ['kill', 'pause', 'handover'] as const) {
      const all: Failover[] = [];
      for (let n = 1; n <= counts[loss]; n += 1) {
        progress(`${loss} ${n} of ${counts[loss]}`);
        all.push(await failover(stack, loss));
      }
      if (all.length > 0) print(figureOf(loss, all));
    }
  } finally {
    await stack.close();
  }
}

function figureOf(loss: Loss, all: readonly Failover[]): object {
  const first = all.map(({ firstMs }) => Math.round(firstMs)).sort((a, b) => a - b);
  const gaps = all.map(({ gapMs }) => Math.round(gapMs)).sort((a, b) => a - b);
  return {
    bench: 'failover',
    loss,
    times: all.length,
    firstJobMs: { p50: median(first), max: first.at(-1) },
    longestGapMs: { p50: median(gaps), max: gaps.at(-1) },
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    floorMs: floors[loss],
    goalMs: goals[loss],
  };
}

/** The two stacks take turns, so that both meet the same machine. A new database is slow until its log and plans are warm. */
async function rates(postgres: string): Promise<void> {
  const echo = await startEcho();
  const server = await startPostgres(postgres, { fsync: 'on', synchronous_commit: 'on' });
  const load = {
    connections: Number(values.connections),
    durationMs: Number(values.seconds) * 1_000,
    warmupMs: Number(values.warmup) * 1_000,
  };
  const ratios: number[] = [];
  const perSecond: { sqlite: number[]; postgres: number[] } = { sqlite: [], postgres: [] };
  try {
    for (let round = 1; round <= Number(values.rounds); round += 1) {
      const found: { sqlite?: number; postgres?: number } = {};
      for (const store of ['sqlite', 'postgres'] as const) {
        progress(`/run on ${store}, round ${round} of ${values.rounds}`);
        const stack: Stack = await startStack(
          undefined,
          undefined,
          store === 'sqlite' ? {} : { CAPSTAN_STORE: await server.newDatabase() },
        );
        try {
          const { loads } = await runRounds(stack, echo.url, { rounds: 1, load, loads: ['runConsumed'], startJobs: 0, progress });
          found[store] = loads.runConsumed?.ratio ?? 0;
          perSecond[store].push(loads.runConsumed?.perSecond ?? 0);
        } finally {
          await stack.close();
        }
      }
      ratios.push((found.postgres ?? 0) / (found.sqlite ?? 1));
    }
  } finally {
    await server.stop();
    await echo.close();
  }
  print({
    bench: 'run-consumed-driver-ratio',
    ratio: median(ratios),
    ratios,
    sqlitePerSecond: median(perSecond.sqlite),
    postgresPerSecond: median(perSecond.postgres),
    floor: 0.6,
    goal: 0.85,
  });
}
