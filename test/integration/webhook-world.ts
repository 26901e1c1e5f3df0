/** A scheduler with one ready worker that the test plays, a clock that it moves, and jobs that want webhooks. */
import type { ExecutionContext } from 'ava';

import { BlobPurpose } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import type { ListWebhooksResponse, RotateWebhookSecretResponse, WebhookInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, type AttemptEnded, type Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import type { SchedulerDeps } from '../../scheduler/assembly/start.ts';
import { ManualClock } from '../support/manual-clock.ts';
import type { Received } from '../support/receiver.ts';
import { TestScheduler, unary, type TestChannel, type TestNode, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

type Body = NonNullable<Payload['body']>;

export class WebhookWorld {
  readonly clock: ManualClock;
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  readonly node: TestNode;
  session: TestSession;
  channel: TestChannel;
  readonly worker: string;
  #jobs = 0;

  private constructor(
    clock: ManualClock,
    scheduler: TestScheduler,
    endpoint: string,
    node: TestNode,
    session: TestSession,
    worker: string,
  ) {
    this.clock = clock;
    this.scheduler = scheduler;
    this.endpoint = endpoint;
    this.node = node;
    this.session = session;
    this.channel = scheduler.channel();
    this.worker = worker;
  }

  /** Loopback is open to webhooks unless the settings say otherwise. */
  static async open(t: ExecutionContext, settings: Record<string, unknown> = {}, deps: SchedulerDeps = {}): Promise<WebhookWorld> {
    const clock = new ManualClock();
    // The session stays silent while the clock jumps.
    const all = { webhookAllow: '127.0.0.0/8', silenceMs: 1e9, maxAttempts: 1, ...settings };
    const scheduler = await TestScheduler.open(all, { clock, ...deps });
    t.teardown(() => scheduler.close());
    const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, maxConcurrency: 100 }]);
    const node = await scheduler.join('host');
    const session = node.session();
    // Scaling looks every second.
    const time = setInterval(() => clock.advance(1_000), 5);
    const [ready] = await session.bringUp();
    const worker = ready?.workerId ?? '';
    clearInterval(time);
    return new WebhookWorld(clock, scheduler, endpoints[0]?.id ?? '', node, session, worker);
  }

  /** Submits a job; the reply tells whether it was taken. */
  async submit(webhook: string, more: Partial<Submit> = {}): Promise<{ id: string; reply: JobReply }> {
    const id = more.jobId ?? `job-${++this.#jobs}`;
    const value = {
      jobId: id,
      kind: JobKind.RUN,
      input: { body: { $case: 'inline', value: Buffer.from('{ "n" : 1 }') } as const },
      webhook,
      idempotencyKey: '',
      bodyHash: Buffer.alloc(0),
      waitMs: 0,
      ...more,
    };
    return { id, reply: await this.channel.ask(this.endpoint, { $case: 'submit', value }) };
  }

  /** Submits a job and sees it handed out. */
  async dispatched(webhook: string, more: Partial<Submit> = {}): Promise<Dispatch> {
    await this.submit(webhook, more);
    return this.session.take('dispatch');
  }

  /** Submits a job and completes it; its webhook's id. */
  async completed(webhook: string, output: Body = inline('{"out":2}'), more: Partial<Submit> = {}): Promise<string> {
    const dispatch = await this.dispatched(webhook, more);
    await this.end(dispatch, { output: { body: output } });
    return `${dispatch.jobId}_${dispatch.token}`;
  }

  /** Reports an attempt as started and ended, and sees it acknowledged: the end is durable. */
  async end({ jobId, token }: Dispatch, ended: Partial<AttemptEnded>): Promise<void> {
    const value = {
      jobId,
      token,
      outcome: AttemptOutcome.COMPLETED,
      error: '',
      executionMs: 5,
      agoMs: 0,
      started: true,
      chunks: 0,
      slotHeld: false,
      ...ended,
    };
    this.session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, { $case: 'ended', value });
    for (let ack = await this.session.take('ack'); ack.jobId !== jobId;) ack = await this.session.take('ack');
  }

  async webhooks(): Promise<WebhookInfo[]> {
    const { control, bearer, key } = this.#access();
    const page = await unary<ListWebhooksResponse>((done) =>
      control.listWebhooks({ afterId: '', limit: 0, newestFirst: false }, bearer(key), done),
    );
    return page.webhooks;
  }

  /** The delivery once this many tries of it have failed. */
  async tried(id: string, tries: number): Promise<WebhookInfo> {
    return until(`webhook ${id} was tried ${tries} times`, async () =>
      (await this.webhooks()).find((webhook) => webhook.id === id && webhook.tries === tries),
    );
  }

  /** Resolves when nothing is left to deliver. */
  async delivered(): Promise<void> {
    await until('all webhooks are delivered', async () => (await this.webhooks()).length === 0);
  }

  async redeliver(id: string): Promise<void> {
    const { control, bearer, key } = this.#access();
    await unary((done) => control.redeliverWebhook({ id }, bearer(key), done));
  }

  async secret(): Promise<string> {
    const { control, bearer, key } = this.#access();
    return (await unary<{ secret: string }>((done) => control.getWebhookSecret({}, bearer(key), done))).secret;
  }

  /** The new secret, and until when the old one signs, too, wall clock ms. */
  async rotateSecret(): Promise<RotateWebhookSecretResponse> {
    const { control, bearer, key } = this.#access();
    return unary((done) => control.rotateWebhookSecret({}, bearer(key), done));
  }

  async cancel(jobId: string): Promise<void> {
    await unary((done) => this.scheduler.jobs.cancel({ endpointId: this.endpoint, jobId }, this.gateway(), done));
  }

  gateway() {
    return this.scheduler.bearer(this.scheduler.secret('gateway-token'));
  }

  /** Puts a big body. */
  async put(bytes: Buffer): Promise<Body> {
    const { id } = await unary<{ id: string }>((done) => {
      const call = this.scheduler.blobs.put(this.gateway(), done);
      call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '' } } });
      for (let at = 0; at < bytes.length; at += 262_144) call.write({ part: { $case: 'data', value: bytes.subarray(at, at + 262_144) } });
      call.end();
    });
    return { $case: 'blob', value: { id, size: bytes.length } };
  }

  #access() {
    const { control } = this.scheduler;
    return { control, bearer: (key: string) => this.scheduler.bearer(key), key: this.scheduler.secret('api-key') };
  }
}

export const payloadOf = ({ body }: Received): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>;

export function inline(json: string): Body {
  return { $case: 'inline', value: Buffer.from(json) };
}
