/** A worker's own code can write to the channel to its agent. What it says of tasks that are not its own ends it, and nothing else. */
import test from 'ava';

import { addBuild, functionSpec, startAgent, startScheduler } from './fixtures.ts';

const CHANNEL = 3;
const ENTRIES = 4;

const MODULES = {
  'main.js': `
import { writeSync } from 'node:fs';
export function attack({ fd, hex }) {
  writeSync(fd, Buffer.from(hex, 'hex'));
  return new Promise(() => undefined);
}
export function victim() {
  return new Promise((resolve) => setTimeout(() => resolve('its own'), 500));
}
export async function late(ms, ctx) {
  setTimeout(() => ctx.progress('late'), 50);
  await new Promise((resolve) => setTimeout(resolve, ms));
  return 'done';
}
`,
  'main.py': `
import os
import threading
import time

def attack(fd, hex):
    os.write(fd, bytes.fromhex(hex))
    time.sleep(60)

def victim():
    time.sleep(0.5)
    return "its own"

def late(ms, ctx):
    threading.Timer(0.05, lambda: ctx.progress("late")).start()
    time.sleep(ms / 1000)
    return "done"
`,
};

function frame(header: object, body = ''): string {
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + text.length + body.length, 0);
  prefix.writeUInt32LE(text.length, 4);
  return Buffer.concat([prefix, text, Buffer.from(body)]).toString('hex');
}

const FORGED: Readonly<Record<string, { readonly fd: number; readonly hex: string }>> = {
  returned: { fd: CHANNEL, hex: frame({ t: 'returned', key: 'victim#1', ms: 1 }, '"forged"') },
  failed: { fd: CHANNEL, hex: frame({ t: 'failed', key: 'victim#1', ms: 1 }, 'forged') },
  stopped: { fd: CHANNEL, hex: frame({ t: 'stopped', key: 'victim#1', ms: 1, entered: true }) },
  chunk: { fd: CHANNEL, hex: frame({ t: 'chunk', key: 'victim#1' }, '1') },
  progress: { fd: CHANNEL, hex: frame({ t: 'progress', key: 'victim#1' }, '1') },
  log: { fd: CHANNEL, hex: frame({ t: 'log', stream: 'stdout', jobId: 'victim' }, 'forged\n') },
  entry: { fd: ENTRIES, hex: Buffer.from('victim#1\n').toString('hex') },
  'http-head': { fd: CHANNEL, hex: frame({ t: 'http-head', key: 'h7', status: 200, headers: [], ended: true }) },
  'http-body': { fd: CHANNEL, hex: frame({ t: 'http-body', key: 'h7', ended: true }, 'forged') },
};

for (const [name, runtime, module] of [
  ['thread', 'thread', 'main.js'],
  ['node', 'process', 'main.js'],
  ['python', 'process', 'main.py'],
] as const) {
  test.serial(`${name}: a frame of another worker's task ends its writer, and the task ends as its own worker says`, async (t) => {
    const scheduler = await startScheduler(t);
    const build = await addBuild(t, scheduler, { [module]: MODULES[module] });
    const agent = await startAgent(t, scheduler);
    await scheduler.hello();
    const releases = [
      { ...build, releaseId: 'r2', endpointId: 'ep2', accountId: 'victims', runtime, functions: [functionSpec('victim')] },
      ...Object.keys(FORGED).map((forged) => ({
        ...{ ...build, releaseId: `r-${forged}`, endpointId: `ep-${forged}`, accountId: 'attackers' },
        ...{ runtime, functions: [functionSpec('attack')] },
      })),
    ];
    const victim = { workerId: 'w2', releaseId: 'r2' };
    for (const [forged, input] of Object.entries(FORGED)) {
      const attacker = { workerId: `w-${forged}`, releaseId: `r-${forged}` };
      scheduler.desire([victim, attacker], releases);
      const from = scheduler.now;
      await scheduler.worker(attacker.workerId, ({ state }) => state === 'WORKER_STATE_IDLE');
      await scheduler.worker('w2', ({ state }) => state === 'WORKER_STATE_IDLE', 0);
      scheduler.dispatch({ jobId: 'victim', workerId: 'w2' });
      await scheduler.hear('started', ({ jobId }) => jobId === 'victim', from);
      scheduler.dispatch({ jobId: `attack-${forged}`, workerId: attacker.workerId }, input);
      const ended = await scheduler.ended('victim', from);
      t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED', forged);
      t.is(scheduler.valueOf(ended.output), 'its own', forged);
      t.is(ended.chunks, 0, forged);
      const attack = await scheduler.ended(`attack-${forged}`);
      t.is(attack.outcome, 'ATTEMPT_OUTCOME_WORKER_LOST', forged);
      t.regex(attack.error, /^the worker sent .* of the (task victim#1|job victim|request h7), which is not its own$/, forged);
      const requestId = scheduler.now + 10_000;
      scheduler.send({ $case: 'logs', value: { requestId, endpointId: 'ep2', workerId: '', limit: 100, afterMs: 0n } });
      const { lines } = await scheduler.hear('logs', (value) => value.requestId === requestId);
      t.deepEqual(lines, [], forged);
    }
    t.false(scheduler.heard.items.some((event) => event.$case === 'progress'));
    await agent.close();
  });

  test.serial(`${name}: a frame of a task that has ended harms nothing`, async (t) => {
    const scheduler = await startScheduler(t);
    const build = await addBuild(t, scheduler, { [module]: MODULES[module] });
    await startAgent(t, scheduler);
    await scheduler.hello();
    scheduler.desire([{}], [{ ...build, runtime, functions: [functionSpec('late')] }]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    // The second one runs when the first one's progress comes.
    for (const [jobId, ms] of [
      ['j1', 0],
      ['j2', 300],
    ] as const) {
      scheduler.dispatch({ jobId }, { ms });
      const { outcome, error } = await scheduler.ended(jobId);
      t.is(outcome, 'ATTEMPT_OUTCOME_COMPLETED', error);
    }
  });
}
