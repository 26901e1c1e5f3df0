/** Why queues wait, as it is recorded (scheduler/history/queue-reasons.ts). */
import test from 'ava';

import type { State } from '../../../scheduler/core/state.ts';
import { QueueReasonRecorder } from '../../../scheduler/history/queue-reasons.ts';
import type { QueueReasonRow, QueueReasonStore } from '../../../scheduler/store/queue-reasons.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

class MemoryStore implements QueueReasonStore {
  readonly rows: QueueReasonRow[] = [];
  failure: Error | null = null;
  calls = 0;

  async save(rows: readonly QueueReasonRow[]): Promise<void> {
    this.calls += 1;
    if (this.failure !== null) throw this.failure;
    this.rows.push(...rows);
  }

  async read(): Promise<QueueReasonRow[]> {
    return this.rows;
  }

  async standing(): Promise<QueueReasonRow[]> {
    this.calls += 1;
    if (this.failure !== null) throw this.failure;
    return [...new Map(this.rows.map((row) => [row.endpoint, row])).values()].filter(({ reason }) => reason !== '');
  }
}

function open() {
  const world = new FleetWorld();
  const store = new MemoryStore();
  const warnings: string[] = [];
  let image: State | null = world.image;
  const log = { warn: (_fields: object, message: string) => void warnings.push(message) };
  const make = () => new QueueReasonRecorder({ image: () => image, now: () => world.now(), store, log });
  let recorder = make();
  /** Samples as often as the seconds; each write ends before the next sample. */
  const pass = async (seconds = 1): Promise<void> => {
    for (let i = 0; i < seconds; i += 1) {
      world.pass(1_000);
      recorder.sample();
      await recorder.written();
    }
  };
  return {
    world,
    store,
    warnings,
    pass,
    codes: () => store.rows.map(({ reason }) => reason),
    show: (state: State | null) => (image = state),
    again: () => (recorder = make()),
  };
}

test('a row is written when the reason changes, and when the queue no longer waits', async (t) => {
  const { world, store, pass, codes } = open();
  const [endpoint = '', idle = ''] = world.deploy(queueInput('echo'), queueInput('idle'));
  await pass(5);
  t.deepEqual(store.rows, [], 'idle endpoints write nothing');
  world.submit(endpoint);
  await pass(5);
  t.deepEqual(codes(), ['NO_CAPACITY']);
  const [row] = store.rows;
  t.like(row, { endpoint, detail: 'no node is connected' });
  t.true(Number.isSafeInteger(row?.at));
  world.node('node-a');
  await pass(5);
  t.deepEqual(codes(), ['NO_CAPACITY', 'WORKER_INITIALIZING']);
  for (const { id } of world.workers(endpoint)) world.ready(id);
  await pass(5);
  t.deepEqual(codes(), ['NO_CAPACITY', 'WORKER_INITIALIZING', '']);
  t.false(store.rows.some((each) => each.endpoint === idle));
});

test('a scheduler that starts goes on from what stands, and ends what no longer does', async (t) => {
  const { world, store, pass, codes, again, show } = open();
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  store.rows.push({ endpoint, at: 1, reason: 'NO_CAPACITY', detail: '' });
  await pass(3);
  t.deepEqual(codes(), ['NO_CAPACITY', ''], 'nothing waits');
  world.submit(endpoint);
  await pass(3);
  again();
  await pass(3);
  t.deepEqual(codes(), ['NO_CAPACITY', '', 'NO_CAPACITY'], 'the reason stands on');
  // Another owner wrote meanwhile, and this one takes over again.
  show(null);
  await pass(2);
  store.rows.push({ endpoint, at: 2, reason: 'PAUSED', detail: '' });
  show({ ...world.image });
  await pass(3);
  t.deepEqual(codes().slice(3), ['PAUSED', 'NO_CAPACITY']);
});

test('a store that fails is tried again with what is so then, and told once', async (t) => {
  const { world, store, warnings, pass, codes } = open();
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  store.failure = new Error('full');
  world.submit(endpoint);
  await pass(3);
  store.failure = null;
  await pass(1);
  store.failure = new Error('full');
  await pass(3);
  t.deepEqual(warnings, ['the reasons of queues are not written', 'the reasons of queues are not written']);
  store.failure = null;
  await pass(1);
  t.deepEqual(codes(), ['NO_CAPACITY']);
});
