/**
 * Callers beside the plain load, each with one job after the other that lives another life: it is
 * cancelled in the queue, cancelled while it runs, retried after it failed, or its stream is read.
 * Every job wants a webhook. What is asked is asked until it is answered.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import type { JobDocument, Stack } from '../support/stack.ts';
import { accepted, Caller } from './caller.ts';
import { hasEnded } from './load.ts';

const CHUNKS = 20;
const CHUNK_MS = 25;
/** Between two lives of a caller, and between two looks at a job, ms. */
const BETWEEN_MS = 100;
const LOOK_MS = 20;
/** Each kind at once. */
const CALLERS = 2;

type Chunk = { readonly call: string; readonly index: number };

export const KINDS = ['cancelled in the queue', 'cancelled while it runs', 'retried', 'read', 'read by cursor'] as const;
type Kind = (typeof KINDS)[number];

export interface Life {
  readonly kind: Kind;
  readonly id: string;
  /** Every state that the job ended in, in order. */
  readonly ends: readonly [string] | readonly [string, string];
}

export class Lives {
  readonly #stack: Stack;
  readonly #endpoints: ReadonlyMap<string, string>;
  readonly #webhook: string;
  readonly #caller: Caller;
  /** Lives that are over, in the order of their ends. */
  readonly over: Life[] = [];
  #next = 0;
  #stopping = false;
  #running: Promise<unknown> = Promise.resolve();
  #failure: Error | null = null;

  constructor(stack: Stack, endpoints: ReadonlyMap<string, string>, webhook: string) {
    this.#stack = stack;
    this.#endpoints = endpoints;
    this.#webhook = webhook;
    this.#caller = new Caller(stack);
  }

  start(): void {
    const callers = KINDS.flatMap((kind) => Array.from({ length: CALLERS }, () => this.#keepLiving(kind)));
    this.#running = Promise.all(callers);
  }

  /** Waits until the lives under way are over. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#running;
    if (this.#failure !== null) throw this.#failure;
  }

  async close(): Promise<void> {
    this.#stopping = true;
    await this.#caller.close();
    await this.#running;
  }

  /** What the job's status is now. */
  async status(life: Life): Promise<JobDocument> {
    return this.#status(endpointFor(life.kind), life.id);
  }

  async #keepLiving(kind: Kind): Promise<void> {
    while (!this.#stopping && this.#failure === null) {
      try {
        this.over.push(await this.#live(kind));
        await pause(BETWEEN_MS);
      } catch (error) {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      }
    }
  }

  async #live(kind: Kind): Promise<Life> {
    const n = this.#next;
    this.#next += 1;
    switch (kind) {
      case 'cancelled in the queue': {
        const id = await this.#submit(kind, n, { n });
        await this.#change('cancel', kind, id);
        return { kind, id, ends: ['CANCELLED'] };
      }
      case 'cancelled while it runs': {
        const scratch = join(this.#stack.scratch, `life-${n}`);
        const id = await this.#submit(kind, n, { n, started: `${scratch}-started`, gate: `${scratch}-never` });
        await this.#until(kind, id, ({ status }) => status === 'IN_PROGRESS');
        await this.#change('cancel', kind, id);
        return { kind, id, ends: ['CANCELLED'] };
      }
      case 'retried': {
        const gate = join(this.#stack.scratch, `life-${n}-gate`);
        const id = await this.#submit(kind, n, { n, gate });
        await this.#until(kind, id, ({ status }) => status === 'FAILED');
        await writeFile(gate, '');
        await this.#change('retry', kind, id);
        const { output } = await this.#until(kind, id, ({ status }) => status === 'COMPLETED');
        if (!isDeepStrictEqual(output, { n })) throw new Error(`job ${id} has the output ${JSON.stringify(output)}`);
        return { kind, id, ends: ['FAILED', 'COMPLETED'] };
      }
      case 'read':
      case 'read by cursor': {
        const id = await this.#submit(kind, n, { count: CHUNKS, ms: CHUNK_MS });
        const series = await this.#readStream(id, kind === 'read by cursor');
        const { status, output } = await this.#status(endpointFor(kind), id);
        if (status !== 'COMPLETED' || !isDeepStrictEqual(series, output))
          throw new Error(`job ${id}, ${kind}: ${JSON.stringify(series)} was read, the end is ${status} ${JSON.stringify(output)}`);
        return { kind, id, ends: ['COMPLETED'] };
      }
    }
  }

  async #submit(kind: Kind, n: number, input: object): Promise<string> {
    const body = JSON.stringify({ input, webhook: this.#webhook });
    const request = { method: 'POST', path: `/${this.#id(kind)}/run`, key: `life-${n}`, body } as const;
    return accepted(await this.#caller.insist(request), 'run').id;
  }

  /** A conflict says that an earlier try, whose answer got lost, has done it. */
  async #change(operation: 'cancel' | 'retry', kind: Kind, id: string): Promise<void> {
    const path = `/${this.#id(kind)}/${operation}/${id}`;
    const first = await this.#caller.ask({ method: 'POST', path });
    const answer = first ?? (await this.#caller.insist({ method: 'POST', path }));
    if (answer.status !== 200 && !(first === null && answer.status === 409))
      throw new Error(`${operation} of ${id} answered ${answer.status}: ${JSON.stringify(answer.document)}`);
  }

  async #until(kind: Kind, id: string, wanted: (document: JobDocument) => boolean): Promise<JobDocument> {
    for (;;) {
      const wait = kind === 'cancelled while it runs' ? `/status/${id}` : `/status-sync/${id}?wait=1000`;
      const document = accepted(await this.#caller.insist({ method: 'GET', path: `/${this.#id(kind)}${wait}` }), wait);
      if (wanted(document)) return document;
      if (hasEnded(document) && kind !== 'retried') throw new Error(`job ${id}, ${kind}, ended ${JSON.stringify(document)}`);
      await pause(LOOK_MS);
    }
  }

  async #status(endpoint: string, id: string): Promise<JobDocument> {
    const path = `/${this.#endpoints.get(endpoint) ?? ''}/status/${id}`;
    return accepted(await this.#caller.insist({ method: 'GET', path }), path);
  }

  /**
   * The whole series of the call that counts. A new attempt begins at chunk 0, and nobody ever sees
   * a gap. Who tells its place sees no chunk twice; who does not may when the gateway died.
   */
  async #readStream(id: string, byCursor: boolean): Promise<readonly Chunk[]> {
    let series: Chunk[] = [];
    let cursor = '0.0';
    for (;;) {
      const path = `/${this.#id('read')}/stream/${id}?wait=2000${byCursor ? `&after=${cursor}` : ''}`;
      const answer = await this.#caller.insist({ method: 'GET', path });
      const { status, stream } = accepted(answer, path) as unknown as { status: string; stream: { output: Chunk }[] };
      cursor = answer.header('capstan-stream-cursor') ?? cursor;
      for (const { output } of stream) {
        if (output.call !== series[0]?.call) series = [];
        if (output.index === series.length) series.push(output);
        else if (byCursor || output.index > series.length)
          throw new Error(`job ${id}: chunk ${output.index} came where ${series.length} was next`);
      }
      if (status !== 'IN_QUEUE' && status !== 'IN_PROGRESS') return series;
    }
  }

  #id(kind: Kind): string {
    return this.#endpoints.get(endpointFor(kind)) ?? '';
  }
}

function endpointFor(kind: Kind): string {
  switch (kind) {
    case 'cancelled in the queue':
      return 'parked';
    case 'cancelled while it runs':
      return 'gated';
    case 'retried':
      return 'failing';
    case 'read':
    case 'read by cursor':
      return 'numbers';
  }
}
