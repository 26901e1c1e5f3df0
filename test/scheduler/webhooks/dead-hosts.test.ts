/** Twenty thousand webhooks to a host that is down: what they cost, and what the log says. */
import test from 'ava';

import { StepContext } from '../../../scheduler/core/context.ts';
import { StepResult } from '../../../scheduler/core/effects.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { newState } from '../../../scheduler/core/state.ts';
import { warningDue } from '../../../scheduler/core/webhooks/warnings.ts';
import {
  FAILING_HOSTS,
  deliveriesRead,
  deliveryTried,
  nextDeliveryCheck,
  noteDelivery,
} from '../../../scheduler/core/webhooks/webhooks.ts';
import type { DeliveryHead } from '../../../scheduler/core/ports/store.ts';

interface Line {
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Deliveries whose tries end at once: those to hosts named `dead…` fail. Time passes as the test says. */
class Service {
  readonly state = newState(defaultSettings, [1, 2, 3, 4]);
  readonly lines: Line[] = [];
  readonly tried: string[] = [];
  reads = 0;
  #mono = 0;
  /** Pending deliveries by host, in order. */
  readonly #pending = new Map<string, DeliveryHead[]>();
  readonly #hosts = new Map<string, string>();
  #ids = 0;

  get now() {
    return { mono: this.#mono, wall: 1_000_000 + this.#mono };
  }

  get left(): number {
    return [...this.#pending.values()].reduce((sum, rows) => sum + rows.length, 0);
  }

  add(host: string): void {
    const id = `hook-${++this.#ids}`;
    const facts = { account: 'a', endpoint: 'e', url: `http://${host}/`, state: 'PENDING', tries: 0, error: null } as const;
    this.#hosts.set(id, host);
    this.#rowsOf(host).push({ id, host, dueAt: this.now.wall, ...facts });
  }

  pass(ms: number): void {
    for (const until = this.#mono + ms; ;) {
      this.#do((ctx) => noteDelivery(ctx, Number.POSITIVE_INFINITY));
      for (let due = this.state.deadlines.take(this.#mono); due !== null; due = this.state.deadlines.take(this.#mono)) {
        const { kind } = due;
        if (kind === 'webhook-warning') {
          const { host } = due;
          this.#do((ctx) => warningDue(ctx, host));
        }
      }
      const next = Math.min(this.state.deadlines.next() ?? Number.POSITIVE_INFINITY, nextDeliveryCheck(this.state) - 1_000_000, until);
      if (this.#mono >= until) return;
      this.#mono = Math.max(this.#mono + 1, next);
    }
  }

  /** Looks for due deliveries, as a tick does. */
  start(): void {
    this.#do((ctx) => noteDelivery(ctx, this.now.wall));
  }

  #rowsOf(host: string): DeliveryHead[] {
    const rows = this.#pending.get(host) ?? [];
    this.#pending.set(host, rows);
    return rows;
  }

  #do(work: (ctx: StepContext) => void): void {
    const tasks: ((ctx: StepContext) => void)[] = [work];
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
      const out = new StepResult();
      task(new StepContext(this.state, this.now, out));
      for (const { op } of out.writes) if (op.kind === 'delivery') this.#write(op.id, op.to);
      for (const { effect } of out.effects) {
        if (effect.kind === 'log') this.lines.push({ message: effect.message, facts: effect.facts });
        else if (effect.kind === 'read-deliveries') tasks.push((ctx) => deliveriesRead(ctx, this.#read(effect)));
        else if (effect.kind === 'deliver') {
          const { id } = effect;
          const host = this.state.deliveries.open.get(id)?.host ?? '';
          this.tried.push(host);
          tasks.push((ctx) =>
            deliveryTried(
              ctx,
              host.startsWith('dead')
                ? { kind: 'delivery-tried', id, result: 'failed', error: 'connection refused' }
                : { kind: 'delivery-tried', id, result: 'delivered' },
            ),
          );
        }
      }
    }
  }

  #write(id: string, to: Pick<DeliveryHead, 'state' | 'dueAt' | 'tries' | 'error'> | null): void {
    const rows = this.#rowsOf(this.#hosts.get(id) ?? '');
    const at = rows.findIndex((row) => row.id === id);
    const [row] = at === -1 ? [] : rows.splice(at, 1);
    if (row !== undefined && to?.state === 'PENDING') rows.push({ ...row, ...to });
  }

  #read({
    skipHosts,
    skipIds,
    perHost,
    limit,
  }: {
    skipHosts: readonly string[];
    skipIds: readonly string[];
    perHost: number;
    limit: number;
  }) {
    this.reads++;
    const deliveries: DeliveryHead[] = [];
    let nextAt: number | null = null;
    const skipped = new Set(skipHosts);
    const first = ([, rows]: readonly [string, readonly DeliveryHead[]]): number => rows[0]?.dueAt ?? 0;
    for (const [host, rows] of [...this.#pending].toSorted((one, other) => first(one) - first(other))) {
      let count = 0;
      for (const row of rows) {
        if (row.dueAt > this.now.wall) {
          nextAt = Math.min(nextAt ?? row.dueAt, row.dueAt);
          break;
        }
        if (skipped.has(host) || count === perHost || deliveries.length === limit) break;
        if (skipIds.includes(row.id)) continue;
        count++;
        deliveries.push(row);
      }
    }
    return { kind: 'deliveries-read' as const, deliveries, nextAt, limit };
  }
}

test('the tries at a dead host have a rate, few reads look for them, and other hosts do not wait', (t) => {
  const service = new Service();
  for (let i = 0; i < 20_000; i++) service.add('dead');
  service.start();
  service.pass(60_000);
  const tries = service.tried.length;
  t.true(tries >= 2_500 && tries <= 3_200, `${tries} tries in a minute`);
  t.true(service.reads <= 1_000, `${service.reads} reads in a minute`);
  service.add('alive');
  service.start();
  t.is(service.tried.at(-1), 'alive', 'at once');
});

test('every delivery has its three tries in the end', (t) => {
  const service = new Service();
  for (let i = 0; i < 500; i++) service.add('dead');
  service.start();
  service.pass(90_000);
  t.is(service.left, 0);
  t.is(service.tried.length, 1_500);
});

test('the failures of a host are one line a minute, which sums them up', (t) => {
  const service = new Service();
  for (let i = 0; i < 20_000; i++) service.add('dead');
  for (let i = 0; i < 3; i++) service.add('dead-too');
  service.start();
  service.pass(59_000);
  t.deepEqual(service.lines.map(({ message, facts }) => `${message} ${String(facts['host'])}`).sort(), [
    'webhook attempt failed dead',
    'webhook attempt failed dead-too',
  ]);
  service.pass(60_000);
  const sums = service.lines.slice(2);
  t.deepEqual(sums.map(({ facts }) => String(facts['host'])).sort(), ['dead', 'dead-too']);
  const [{ message, facts } = { message: '', facts: {} as Line['facts'] }] = sums;
  t.is(message, 'webhook attempts failed');
  t.true(Number(facts['failed']) > 2_500);
  t.is(facts['error'], 'connection refused');
  const counted = service.lines.length;
  service.pass(60_000);
  t.is(service.lines.length - counted, 1, 'nothing more of the host whose deliveries have ended');
});

test('the first hundred dead hosts have lines of their own, the others one together', (t) => {
  const service = new Service();
  for (let i = 0; i < 1_000; i++) service.add(`dead-${i}`);
  service.start();
  service.pass(59_000);
  t.is(service.lines.length, 101);
  t.is(service.state.deliveries.warnings.size, 101);
});

test('thousands of failing hosts are summed up, and their tries have a rate', (t) => {
  const service = new Service();
  for (let i = 0; i < 3_000; i++) for (let each = 0; each < 3; each++) service.add(`dead-${i}`);
  service.start();
  for (let minute = 1; minute <= 5; minute++) {
    const before = service.lines.length;
    const tried = service.tried.length;
    service.pass(60_000);
    const lines = service.lines.slice(before);
    t.true(lines.length <= 202, `${lines.length} lines in minute ${minute}`);
    t.true(service.state.deliveries.warnings.size <= 101);
    t.true(service.state.deliveries.failing.size <= FAILING_HOSTS);
    // The first minute has the first tries, after which the hosts are known.
    const most = 3_200 + (minute === 1 ? 9_000 : 0);
    t.true(service.tried.length - tried <= most, `${service.tried.length - tried} tries in minute ${minute}`);
  }
  const sums = service.lines.filter(({ facts }) => facts['host'] === 'others' && 'seconds' in facts);
  t.true(sums.length >= 3, 'further hosts are summed up together');
});

test('the tries at more failing hosts than are remembered have a rate, and those of a host that lives follow', (t) => {
  const service = new Service();
  for (let i = 0; i < FAILING_HOSTS; i++) service.state.deliveries.failing.add(`down-${i}`);
  for (let i = 0; i < 3_000; i++) service.add(`dead-${i}`);
  service.start();
  service.pass(5_000);
  t.is(service.state.deliveries.failing.size, FAILING_HOSTS);
  t.true(service.tried.length <= 5 * 160 + 512, `${service.tried.length} tries in 5 s`);
  service.add('alive');
  service.start();
  service.pass(30_000);
  t.true(service.tried.includes('alive'));
});
