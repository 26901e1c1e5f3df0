/** Tests DeliveryHosts and the reads of due webhooks against a list in place of the database, with writes at any point of a read. */
import test from 'ava';
import fc from 'fast-check';

import { PayloadCodec } from '../../../scheduler/store/payload-codec.ts';
import { DeliveryHosts } from '../../../scheduler/store/postgres/reads/delivery-hosts.ts';
import { deliveryReads } from '../../../scheduler/store/postgres/reads/deliveries.ts';
import { LeftEdges } from '../../../scheduler/store/postgres/reads/left-edges.ts';
import type { Query } from '../../../scheduler/store/postgres/reads/query.ts';
import type { DeliveryHead } from '../../../scheduler/core/ports/store.ts';

interface Delivery {
  readonly id: string;
  readonly host: string;
  readonly dueAt: number;
}

/** A write of a delivery. */
type Write =
  | { readonly kind: 'new'; readonly host: number; readonly dueIn: number }
  /** Of the delivery at this place in the list; a `dueIn` of null removes it. */
  | { readonly kind: 'change'; readonly at: number; readonly dueIn: number | null };

interface Step {
  readonly passes: number;
  readonly before: readonly Write[];
  /** Writes during the read: called before one of its queries, visible from the same or a later one on. */
  readonly during: readonly { readonly write: Write; readonly called: number; readonly shown: number }[];
  readonly limit: number;
}

const MAX_HOSTS = 3;
const LOOK = 2;
const HOSTS = 5;

class World {
  readonly edges = new LeftEdges({ deliveryHosts: new DeliveryHosts(MAX_HOSTS) });
  wall = 1_000;
  rows: Delivery[] = [];
  queries = 0;
  #ids = 0;
  #during: { readonly write: Write; readonly called: number; readonly shown: number; show: (() => void) | null }[] = [];

  /** Notes the write in the edges; the returned function makes it visible. */
  call(write: Write): () => void {
    if (write.kind === 'new') {
      const row = { id: String(this.#ids++), host: `h${write.host}`, dueAt: this.wall + write.dueIn };
      this.edges.deliveries.lower(row.dueAt, row.host);
      return () => this.rows.push(row);
    }
    const row = this.rows[write.at % Math.max(1, this.rows.length)];
    if (row === undefined) return () => undefined;
    const dueAt = write.dueIn === null ? null : this.wall + write.dueIn;
    if (dueAt !== null) this.edges.deliveries.lower(dueAt);
    return () => {
      this.rows = this.rows.flatMap((each) => (each.id !== row.id ? [each] : dueAt === null ? [] : [{ ...row, dueAt }]));
    };
  }

  async look(limit: number, during: Step['during'] = []): Promise<DeliveryHead[]> {
    this.queries = 0;
    this.#during = during.map((each) => ({ ...each, show: null }));
    const { deliveries } = await deliveryReads(this.#query, 0, this.edges, new PayloadCodec()).deliveries({
      wall: this.wall,
      skipHosts: [],
      skipIds: [],
      perHost: 2,
      limit,
    });
    // Makes the remaining writes visible.
    this.#pass(Number.MAX_SAFE_INTEGER);
    return deliveries;
  }

  due(): Delivery[] {
    return this.rows.filter(({ dueAt }) => dueAt <= this.wall);
  }

  #pass(query: number): void {
    for (const each of this.#during) {
      if (each.called <= query) each.show ??= this.call(each.write);
      if (each.shown <= query) each.show?.();
    }
    this.#during = this.#during.filter(({ shown, show }) => show === null || shown > query);
  }

  readonly #query: Query = async (name, _text, values) => {
    this.#pass(this.queries++);
    return this.#answer(name, values) as never;
  };

  #answer(name: string, values: readonly unknown[]): unknown[] {
    const byTime = this.rows.toSorted((a, b) => a.dueAt - b.dueAt || Number(a.id) - Number(b.id));
    switch (name) {
      case 'delivery-hosts': {
        const [, from, until] = values as [number, number, number];
        const found = byTime.filter(({ dueAt }) => dueAt >= from && dueAt <= until);
        const last = found[LOOK]?.dueAt ?? null;
        const seen = Map.groupBy(
          found.filter(({ dueAt }) => dueAt <= (last ?? until)),
          ({ host }) => host,
        );
        return [...seen].map(([host, rows]) => [host, rows[0]?.dueAt, last]);
      }
      case 'next-delivery':
        return byTime
          .filter(({ dueAt }) => dueAt > (values[1] as number))
          .slice(0, 1)
          .map(({ dueAt }) => [dueAt]);
      case 'first-deliveries': {
        const [, hosts, since] = values as [number, string[], number[]];
        return hosts.map((host, i) => [host, byTime.find((row) => row.host === host && row.dueAt >= (since[i] ?? 0))?.dueAt ?? null]);
      }
      case 'deliveries': {
        const [, hosts, firsts, until, , perHost, limit] = values as [number, string[], number[], number, string[], number, number];
        const rows = hosts.flatMap((host, i) =>
          byTime.filter((row) => row.host === host && row.dueAt >= (firsts[i] ?? 0) && row.dueAt <= until).slice(0, perHost),
        );
        return rows.slice(0, limit).map(({ id, host, dueAt }) => [id, 'account', 'endpoint', 'url', host, 'PENDING', dueAt, 0, null]);
      }
      default:
        throw new Error(`unknown query ${name}`);
    }
  }
}

const write: fc.Arbitrary<Write> = fc.oneof(
  fc.record({ kind: fc.constant('new' as const), host: fc.nat(HOSTS - 1), dueIn: fc.integer({ min: -3, max: 4 }) }),
  fc.record({ kind: fc.constant('change' as const), at: fc.nat(20), dueIn: fc.option(fc.integer({ min: -2, max: 5 })) }),
);
const step: fc.Arbitrary<Step> = fc.record({
  passes: fc.nat(3),
  before: fc.array(write, { maxLength: 4 }),
  during: fc.array(fc.record({ write, called: fc.nat(4), shown: fc.nat(6) }), { maxLength: 3 }),
  limit: fc.integer({ min: 1, max: 4 }),
});

test('every due delivery is found, and a read returns none only if none is due', async (t) => {
  const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
    const world = new World();
    for (const { passes, before, during, limit } of steps) {
      world.wall += passes;
      for (const each of before) world.call(each)();
      await world.look(limit, during);
    }
    // Without further writes, each read returns deliveries until all due ones are delivered.
    for (;;) {
      const due = world.due().map(({ id }) => id);
      const found = await world.look(1);
      if (due.length === 0) return found.length === 0;
      if (found.length === 0 || !found.every(({ id }) => due.includes(id))) return false;
      world.rows = world.rows.filter(({ id }) => id !== found[0]?.id);
    }
  });
  await fc.assert(property, { numRuns: 5_000 });
  t.pass();
});

test('hosts without due deliveries are removed, and the number of hosts is limited', async (t) => {
  const world = new World();
  for (let host = 0; host < 20; host++) world.call({ kind: 'new', host, dueIn: host - 20 })();
  const hosts = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const [found] = await world.look(1);
    t.true(world.edges.deliveries.size <= MAX_HOSTS + LOOK, `${world.edges.deliveries.size} hosts`);
    hosts.add(found?.host ?? 'none');
    world.rows = world.rows.filter(({ id }) => id !== found?.id);
  }
  t.is(hosts.size, 20);
  t.deepEqual(await world.look(1), []);
  t.is(world.edges.deliveries.size, 0);
});

test('a delivery that is due later is found when it is due', async (t) => {
  const world = new World();
  world.call({ kind: 'new', host: 1, dueIn: 5 })();
  t.deepEqual(await world.look(4), []);
  t.is(world.edges.deliveries.size, 0);
  world.wall += 5;
  t.deepEqual(
    (await world.look(4)).map(({ host }) => host),
    ['h1'],
  );
});
