/** Webhooks as a receiver saw them while parts were killed. */
import type { ExecutionContext } from 'ava';
import { Webhook } from 'standardwebhooks';

import { Receiver, type Received } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import type { Life } from './lives.ts';

/** The first try of every so many deliveries is refused. */
const REFUSED = 10;
/** Two more tries 10 s apart, and what a kill adds, ms. */
const PATIENCE_MS = 60_000;

interface Delivery {
  /** As it was first sent. */
  readonly body: string;
  readonly job: string;
  readonly status: string;
  readonly tries: Received[];
  taken: boolean;
}

export class Deliveries {
  readonly receiver: Receiver;
  readonly #byId: Map<string, Delivery>;
  /** What no delivery may do. */
  readonly #faults: readonly string[];

  private constructor(receiver: Receiver, byId: Map<string, Delivery>, faults: readonly string[]) {
    this.receiver = receiver;
    this.#byId = byId;
    this.#faults = faults;
  }

  static async open(t: ExecutionContext): Promise<Deliveries> {
    const byId = new Map<string, Delivery>();
    const faults: string[] = [];
    const receiver = await Receiver.open(t, [
      (response, request) => {
        const id = String(request.headers['webhook-id']);
        const body = request.body.toString();
        const { id: job, status } = JSON.parse(body) as { id: string; status: string };
        const delivery = byId.get(id) ?? { body, job, status, tries: [], taken: false };
        byId.set(id, delivery);
        if (!id.startsWith(`${job}_`)) faults.push(`${id} is of ${job}`);
        if (delivery.body !== body) faults.push(`${id} changed from ${delivery.body} to ${body}`);
        delivery.tries.push(request);
        const refused = delivery.tries.length === 1 && byId.size % REFUSED === 0;
        if (!refused) delivery.taken = true;
        response.writeHead(refused ? 503 : 200).end();
      },
    ]);
    return new Deliveries(receiver, byId, faults);
  }

  /** Every end of every life was delivered under one id of its own, with a signature that holds. */
  async expectAll(t: ExecutionContext, lives: readonly Life[], secret: string): Promise<void> {
    const wanted = lives.flatMap(({ id, ends }) => ends.map((end) => `${id} ${end}`)).toSorted();
    const taken = (): string[] =>
      [...this.#byId.values()].filter((delivery) => delivery.taken).map(({ job, status }) => `${job} ${status}`);
    await until('every webhook is delivered', () => new Set(taken()).size >= new Set(wanted).size, PATIENCE_MS).catch(() => undefined);
    t.deepEqual(taken().toSorted(), wanted, 'one delivery an end, each under its own id');
    t.deepEqual(this.#faults, []);
    const webhook = new Webhook(secret);
    for (const { tries } of this.#byId.values())
      for (const { headers, body } of tries) {
        const at = new Date(Number(headers['webhook-timestamp']) * 1_000);
        t.is(headers['webhook-signature'], webhook.sign(String(headers['webhook-id']), at, body.toString()));
      }
    const again = [...this.#byId.values()].filter(({ tries }) => tries.length > 1).length;
    t.log(`${this.#byId.size} webhooks, ${again} of them tried more than once`);
  }
}
