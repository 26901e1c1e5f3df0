/** Gauges of devices over time: minutes as they are recorded, and series as they are read (scheduler/history/device-*.ts). */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { Inventory, type Device } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../../../scheduler/core/state.ts';
import { noUsage } from '../../../scheduler/core/state/fleet.ts';
import { DeviceRecorder, MAX_DEVICES, MAX_DEVICES_OF_NODE } from '../../../scheduler/history/device-recorder.ts';
import { readDeviceSeries } from '../../../scheduler/history/device-series.ts';
import { DEVICE_MINUTES_KEPT_MS } from '../../../scheduler/store/device-history.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { folderOf } from '../../support/folder.ts';
import type { DeviceHistoryRange, DeviceHistoryRow, DeviceHistoryStore } from '../../../scheduler/store/device-history.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The begin of an hour. */
const START = 500_000 * HOUR;

class MemoryStore implements DeviceHistoryStore {
  readonly rows = new Map<string, DeviceHistoryRow>();
  failure: Error | null = null;
  writes = 0;

  async save(rows: readonly DeviceHistoryRow[]): Promise<void> {
    if (this.failure !== null) throw this.failure;
    this.writes += 1;
    for (const row of rows) this.rows.set(`${row.node} ${row.device} ${row.at}`, row);
  }

  async read({ node, device, from, until }: DeviceHistoryRange): Promise<DeviceHistoryRow[]> {
    return [...this.rows.values()]
      .filter((row) => row.node === node && row.device === device && row.at >= from && row.at < until)
      .sort((a, b) => a.at - b.at);
  }

  async expire(before: number): Promise<void> {
    for (const [key, { at }] of this.rows) if (at < before) this.rows.delete(key);
  }
}

type Gauges = Partial<Device>;

function open() {
  const store = new MemoryStore();
  const warnings: string[] = [];
  let now = START;
  let nodes = new Map<string, readonly Gauges[] | null>();
  let state: State | null = null;
  const show = (given: Readonly<Record<string, readonly Gauges[] | null>>): void => {
    nodes = new Map(Object.entries(given));
    // The same state, with other nodes.
    const records = [...nodes].map(([id, devices]) => {
      const inventory = Inventory.fromPartial({ devices: [...(devices ?? [])] });
      return [id, { inventory, session: devices === null ? null : 1, usage: noUsage() }] as const;
    });
    state ??= { nodes: new Map() } as unknown as State;
    (state as { nodes: unknown }).nodes = new Map(records);
  };
  const log = { warn: (_fields: object, message: string) => void warnings.push(message) };
  const make = () => new DeviceRecorder({ state: () => state, wall: () => now, store, log });
  let recorder = make();
  /** A sample each 20 s of this many minutes. */
  const pass = async (minutes: number): Promise<void> => {
    for (let i = 0; i < minutes * 3; i += 1) {
      recorder.sample();
      await recorder.written();
      now += 20_000;
    }
  };
  const takeOver = (): void => {
    state = null;
    recorder = make();
  };
  const series = (from: number, to: number, step = 0, device = 'GPU-a') =>
    readDeviceSeries(store, { node: 'a', device, from, to, step }, now);
  return { store, warnings, show, pass, takeOver, series, close: () => recorder.close(), now: () => now };
}

const busy: Gauges = {
  uuid: 'GPU-a',
  memoryBytes: 80n << 30n,
  memoryUsedBytes: 20n << 30n,
  utilizationPercent: 90,
  powerMilliwatts: 300_000,
  temperatureCelsius: 60,
  throttleReasons: 0x5n,
  eccCorrected: 1n,
  eccUncorrected: 0n,
};

test('a minute is the mean of its samples; memory and heat are the highest, reasons all, counts of errors the last', async (t) => {
  const { show, pass, series } = open();
  show({ a: [busy] });
  await pass(1 / 3);
  const later = { utilizationPercent: 30, powerMilliwatts: 90_000, memoryUsedBytes: 10n << 30n, throttleReasons: 0x41n, eccCorrected: 4n };
  show({ a: [{ ...busy, ...later, xids: [{ code: 48, text: '', atMs: BigInt(START + 30_000) }] }] });
  await pass(2);
  const { from, step, values } = await series(START, START + MINUTE);
  t.deepEqual({ from, step }, { from: START, step: 60 });
  t.deepEqual(values, [
    {
      utilization: 50,
      power: 160,
      memory: 20 * 2 ** 30,
      temperature: 60,
      // Idle is no reason.
      throttle: 0x44,
      eccCorrected: 4,
      eccUncorrected: 0,
      xid: 48,
    },
  ]);
});

test('what a card does not report is absent, and so are the minutes in which its node is away', async (t) => {
  const { show, pass, series } = open();
  show({ a: [{ uuid: 'GPU-a', utilizationPercent: 5 }] });
  await pass(1);
  show({ a: null });
  await pass(2);
  show({ a: [{ uuid: 'GPU-a', utilizationPercent: 7 }] });
  await pass(2);
  const { values } = await series(START, START + 4 * MINUTE);
  t.deepEqual(
    values.map(({ utilization }) => utilization),
    [5, null, null, 7],
  );
  t.like(values[0], { power: null, memory: null, temperature: null, throttle: 0, eccCorrected: null, eccUncorrected: null, xid: 0 });
});

test('the minutes of an hour are one row, and a scheduler that takes over begins one of its own', async (t) => {
  const { store, show, pass, takeOver, series } = open();
  show({ a: [busy] });
  await pass(121);
  t.is(store.rows.size, 2);
  takeOver();
  show({ a: [{ ...busy, utilizationPercent: 10 }] });
  await pass(3);
  t.is(store.rows.size, 3);
  const { values } = await series(START, START + 123 * MINUTE, 60);
  t.deepEqual(
    values.map(({ utilization }) => utilization),
    [...Array<number>(120).fill(90), null, 10, 10],
    'the minute that was open is lost',
  );
});

test('a stop writes the open minute', async (t) => {
  const { show, pass, series, close } = open();
  show({ a: [busy] });
  await pass(1 / 3);
  await close();
  t.is((await series(START, START + MINUTE)).values[0]?.utilization, 90);
});

test('a longer step is made of its minutes, and the range of what is kept', async (t) => {
  const { store, show, pass, series, now } = open();
  show({ a: [busy] });
  await pass(10);
  show({ a: [{ ...busy, utilizationPercent: 0, temperatureCelsius: 70 }] });
  await pass(6);
  const { step, values } = await series(START, START + 15 * MINUTE, 900);
  t.is(step, 900);
  t.is(values.length, 1);
  t.like(values[0], { utilization: 60, temperature: 70 });
  t.is((await series(START - 3 * 24 * HOUR, now())).step, 900);
  t.is((await series(START - 6 * HOUR, now())).step, 60);
  const days = await series(0, now());
  t.is(days.from, Math.floor((now() - DEVICE_MINUTES_KEPT_MS) / 900_000) * 900_000, 'no step before what is kept');
  await t.throwsAsync(series(START, now(), 90), { message: 'step: must be a multiple of 60 s' });
  await t.throwsAsync(series(START - 72 * HOUR, now(), 60), { message: /more than 1500 steps/ });
  await t.throwsAsync(series(now(), START), { message: 'to: must be after from' });
  await store.expire(Number.MAX_SAFE_INTEGER);
  t.deepEqual((await series(START, START + MINUTE)).values[0]?.utilization, null);
});

test('rows older than three days go, once an hour', async (t) => {
  const { store, show, pass } = open();
  show({ a: [busy] });
  await store.save([{ node: 'gone', device: 'GPU-z', at: START - DEVICE_MINUTES_KEPT_MS - 2 * HOUR, value: '[]' }]);
  await pass(2);
  t.false([...store.rows.values()].some(({ node }) => node === 'gone'));
});

test('of a node the first devices are kept, and of all nodes the first', async (t) => {
  const { store, show, pass } = open();
  const many = Array.from({ length: MAX_DEVICES_OF_NODE + 1 }, (_, i) => ({ ...busy, uuid: `GPU-${String(i).padStart(4, '0')}` }));
  show(
    Object.fromEntries(Array.from({ length: MAX_DEVICES / MAX_DEVICES_OF_NODE + 1 }, (_, i) => [`n${String(i).padStart(3, '0')}`, many])),
  );
  await pass(2);
  t.is(store.rows.size, MAX_DEVICES);
  t.true([...store.rows.values()].every(({ device }) => device !== many.at(-1)?.uuid));
});

test('a store that fails is told of once, and its minutes are written when it works again', async (t) => {
  const { store, warnings, show, pass, series } = open();
  show({ a: [busy] });
  store.failure = new Error('no');
  await pass(3);
  t.deepEqual(warnings, ['the history of devices is not written']);
  store.failure = null;
  await pass(2);
  const { values } = await series(START, START + 4 * MINUTE);
  t.deepEqual(
    values.map(({ utilization }) => utilization),
    [90, 90, 90, 90],
  );
});

test('three days of 100 hosts with 8 GPUs need no more than 150 MB of SQLite', async (t) => {
  const file = join(await folderOf(t), 'queue.db');
  const engine = new SqliteEngine({ file });
  const value = JSON.stringify(Array.from({ length: 60 }, (_, i) => [i, 97, 698, 81_234, 66, 4, 12, 0]));
  const uuid = 'GPU-01234567-89ab-cdef-0123-456789abcde';
  // A hundredth of it: 8 devices for three days.
  const rows = Array.from({ length: 8 }, (_, device) =>
    Array.from({ length: 73 }, (_hour, i) => ({ node: 'node-0123456789', device: `${uuid}${device}`, at: START + i * HOUR, value })),
  ).flat();
  const empty = (await stat(file)).size;
  engine.changeDeviceHistory({ save: rows });
  engine.close();
  const bytes = ((await stat(file)).size - empty) * 100;
  t.log(`${Math.round(bytes / 1e6)} MB`);
  t.true(bytes < 150e6, `${bytes}`);
});
