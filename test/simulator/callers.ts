/** Callers of one run: they submit jobs, ask for them, follow streams, cancel, retry, purge and send webhooks again. */
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { PolicyInput } from '../../scheduler/core/events.ts';
import type { SimBlobs } from './blobs.ts';
import type { Cluster } from './cluster.ts';
import type { ControlRules } from './control-rules.ts';
import type { SimGateway } from './gateway.ts';
import type { Ledger } from './invariants.ts';
import type { SimScheduler } from './scheduler.ts';
import type { Streams } from './streams.ts';
import { receivers, type Receivers } from './webhooks.ts';
import type { World } from './world.ts';

/** What callers reach, and what their answers are held against. */
export interface CallerParts {
  readonly gateway: SimGateway<SimScheduler>;
  readonly cluster: Cluster;
  readonly blobs: SimBlobs;
  readonly streams: Streams;
  readonly receivers: Receivers;
  readonly ledger: Ledger;
  readonly controlRules: ControlRules;
  /** Streams are followed until then. */
  readonly followedUntil: number;
}

export class Callers {
  /** Jobs that a caller was told of, and those of them that it saw ended. */
  readonly acknowledged = new Set<string>();
  readonly ended = new Map<string, JobState>();
  /** What was deployed, as far as callers know. */
  endpoints: string[] = [];
  readonly #world: World;
  readonly #parts: CallerParts;
  #jobs = 0;

  constructor(world: World, parts: CallerParts) {
    this.#world = world;
    this.#parts = parts;
  }

  /** One step of a caller, by chance. */
  act(): void {
    const { random } = this.#world;
    const endpoint = this.#anyEndpoint();
    const known = [...this.acknowledged];
    const what = random.next();
    if (what < 0.6 || known.length === 0) this.#submit(endpoint);
    else if (what < 0.75) this.#get(random.pick(known));
    else if (what < 0.85) this.#control('cancel', random.pick(known));
    else if (what < 0.95) this.#control('retry', random.pick(known));
    else if (what < 0.96) this.#purge(endpoint);
    else if (what < 0.97) this.#redeliver();
    else for (let i = 0; i < 30; i++) this.#submit(endpoint);
  }

  #submit(endpoint: string): void {
    const { random } = this.#world;
    const job = `job-${++this.#jobs}`;
    const sync = random.chance(0.3);
    const policy: PolicyInput = {
      executionTimeoutMs: random.chance(0.15) ? random.int(5, 2_000) : null,
      ttlMs: random.chance(0.1) ? random.int(500, 10_000) : null,
      lowPriority: random.chance(0.2),
    };
    const waitMs = sync ? random.int(1_000, 20_000) : 0;
    const follow = random.chance(0.2);
    const webhook = random.chance(0.15) ? random.pick(receivers) : null;
    const key = random.chance(0.1) ? `${endpoint}/${random.int(1, 5)}` : null;
    const idempotency = key === null ? null : { key, bodyHash: Buffer.alloc(32, random.chance(0.8) ? 1 : 2) };
    const input = webhook === null && random.chance(0.05) ? { blob: this.#parts.blobs.put('{}') } : { inline: Buffer.from('{}') };
    this.#parts.gateway.request({
      event: (ref, resent) => ({
        kind: 'submit',
        ref,
        counting: { limitedAs: sync ? 'runsync' : 'run', resent },
        endpoint,
        job,
        jobKind: sync ? 'RUNSYNC' : 'RUN',
        input,
        webhook,
        trace: null,
        tags: null,
        policy,
        s3: null,
        idempotency,
        waitMs,
      }),
      left: (reply) => {
        if (reply.result?.$case !== 'job') return;
        const { id } = reply.result.value;
        if (this.#parts.ledger.byId.get(id) === undefined) throw new Error(`job ${id} was acknowledged before it was stored`);
        if (id !== job && idempotency === null) throw new Error(`the submission of job ${job} was answered with job ${id}`);
      },
      answered: (reply) => {
        this.#learnt(reply);
        if (follow) this.readStream(job, 1_000, true);
      },
    });
  }

  /** One that is there as far as callers know, now and then one that is not any more. */
  #anyEndpoint(): string {
    const { random } = this.#world;
    const { image } = this.#parts.cluster;
    if (image !== null && image.endpoints.size > 0) this.endpoints = [...image.endpoints.keys()];
    const { removed } = this.#parts.controlRules;
    return removed.length > 0 && random.chance(0.1) ? random.pick(removed) : random.pick(this.endpoints);
  }

  #purge(endpoint: string): void {
    const command = { kind: 'purge', endpoint } as const;
    this.#parts.cluster.command(command, this.#parts.controlRules.asked(command));
  }

  #redeliver(): void {
    const webhook = this.#parts.receivers.anyUndelivered();
    if (webhook !== null) this.#parts.cluster.command({ kind: 'redeliver', webhook }, () => undefined);
  }

  #get(job: string): void {
    const { random } = this.#world;
    const endpoint = this.#parts.ledger.byId.get(job)?.endpoint ?? '';
    const waitMs = random.chance(0.5) ? 0 : random.int(100, 5_000);
    if (random.chance(0.5)) this.readStream(job, waitMs);
    else
      this.#parts.gateway.request({
        event: (ref, resent) => ({ kind: 'get', ref, counting: { limitedAs: 'status', resent }, endpoint, job, waitMs }),
        answered: () => undefined,
      });
  }

  /** Reads once, or until the job has ended. Some callers tell themselves what they have, the others leave that to the gateway. */
  readStream(job: string, waitMs: number, follow = false): void {
    const endpoint = this.#parts.ledger.byId.get(job)?.endpoint ?? '';
    const exact = job.endsWith('7');
    this.#parts.gateway.request({
      event: (ref, resent) => {
        const cursor = exact ? this.#parts.streams.cursorOf(job) : this.#parts.gateway.cursors.of(job);
        const after = cursor === undefined ? null : { token: cursor.token, next: cursor.nextIndex, exact };
        return { kind: 'read-stream', ref, counting: { limitedAs: 'stream', resent }, endpoint, job, after, waitMs };
      },
      answered: ({ result }) => {
        if (result?.$case === 'failure') this.#parts.gateway.cursors.forget(job);
        if (result?.$case !== 'stream') return;
        if (!exact) this.#parts.gateway.cursors.note(job, result.value);
        this.#parts.streams.read(job, result.value, exact);
        const { state } = result.value;
        const ended = state !== JobState.IN_QUEUE && state !== JobState.IN_PROGRESS;
        if (follow && !ended && this.#world.now < this.#parts.followedUntil) this.readStream(job, waitMs, true);
      },
    });
  }

  #control(command: 'cancel' | 'retry', job: string): void {
    const endpoint = this.#parts.ledger.byId.get(job)?.endpoint ?? '';
    this.#parts.cluster.command({ kind: command, endpoint, job }, (result) => {
      this.#world.trace(`${command} ${job}: ${result instanceof Error ? result.message : 'done'}`);
    });
  }

  #learnt(reply: JobReply): void {
    if (reply.result?.$case !== 'job') return;
    const { id: job, state } = reply.result.value;
    this.acknowledged.add(job);
    if (state !== JobState.IN_QUEUE && state !== JobState.IN_PROGRESS) this.ended.set(job, state);
  }
}
