/** Records webhooks as a real receiver gets them; it refuses some first tries. */
import { createHash } from 'node:crypto';

import { Webhook } from 'standardwebhooks';

import { Random } from '../../simulator/random.ts';
import { Receiver, type Received } from '../../support/receiver.ts';
import type { Recorder } from '../recorder.ts';
import { jobView } from './views.ts';

const REFUSED_SHARE = 0.05;

export class Deliveries {
  readonly #receiver: Receiver;
  readonly #close: () => Promise<void>;

  private constructor(receiver: Receiver, close: () => Promise<void>) {
    this.#receiver = receiver;
    this.#close = close;
  }

  static async open(recorder: Recorder, secret: string, seed: number): Promise<Deliveries> {
    const random = new Random(seed);
    const webhook = new Webhook(secret);
    const seen = new Set<string>();
    let close = (): Promise<void> => Promise.resolve();
    const owner = {
      teardown: (end: () => Promise<void>) => {
        close = end;
      },
    };
    const receiver = await Receiver.open(owner, [
      (response, request) => {
        const id = String(request.headers['webhook-id']);
        const answer = !seen.has(id) && random.chance(REFUSED_SHARE) ? 503 : 200;
        seen.add(id);
        const document = JSON.parse(request.body.toString()) as { input?: { input?: unknown } };
        recorder.record({
          kind: 'webhook',
          id,
          digest: createHash('sha256').update(request.body).digest('hex'),
          job: jobView(document),
          input: String(document.input?.input),
          signed: isSigned(webhook, request),
          answer,
        });
        response.writeHead(answer).end();
      },
    ]);
    return new Deliveries(receiver, () => close());
  }

  get url(): string {
    return this.#receiver.url();
  }

  close(): Promise<void> {
    return this.#close();
  }
}

function isSigned(webhook: Webhook, { headers, body }: Received): boolean {
  const at = new Date(Number(headers['webhook-timestamp']) * 1_000);
  return headers['webhook-signature'] === webhook.sign(String(headers['webhook-id']), at, body.toString());
}
