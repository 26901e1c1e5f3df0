/**
 * A service in memory with one lie: what the clients of the history checker call in a test of the whole chain, from their requests to the rules. It executes jobs
 * itself and appends what the handlers would. Without a lie it keeps every promise that the clients look at.
 */
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { Webhook } from 'standardwebhooks';

import { isTerminal } from './core/record.ts';
import { monotonicNow } from './recorder.ts';

export type Lie =
  | 'none'
  | 'loses a job'
  | 'swaps outputs'
  | 'forgets keys'
  | 'completes cancelled jobs'
  | 'changes an end'
  | 'drops a chunk'
  | 'drops a webhook'
  | 'changes a webhook'
  | 'runs a job again'
  | 'turns the queue round';

/** The first job that fits and every fifth after it meet the lie. */
const LIES_EVERY = 5;
export const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
/** The endpoint that executes one job at a time. */
export const IN_ORDER = 'line';

interface Body {
  readonly input: {
    readonly input: string;
    readonly record: string;
    readonly ms: number;
    readonly failing: number;
    readonly bytes: number;
    readonly count?: number;
  };
  readonly webhook?: string;
}

interface Job {
  readonly id: string;
  readonly endpoint: string;
  readonly body: Body;
  status: string;
  output?: unknown;
  error?: string;
  chunks: unknown[];
  read: number;
  ends: number;
}

interface Reply {
  readonly status: number;
  readonly document: unknown;
  readonly headers?: Record<string, string>;
}

export class LyingService {
  readonly apiKey = 'key';
  readonly gateways = ['gateway'];
  readonly #server: Server;
  readonly #lie: Lie;
  readonly #jobs = new Map<string, Job>();
  readonly #keys = new Map<string, { readonly body: string; readonly job: Job }>();
  readonly #waiting = new Map<string, Job[]>();
  readonly #busy = new Set<string>();
  readonly #working = new Set<Promise<void>>();
  #occasions = 0;
  #failure: unknown;

  private constructor(lie: Lie) {
    this.#lie = lie;
    this.#server = createServer((request, response) => {
      void this.#answer(request).then(({ status, document, headers }) => {
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document));
      });
    });
  }

  static async open(lie: Lie): Promise<LyingService> {
    const service = new LyingService(lie);
    service.#server.listen(0, '127.0.0.1');
    await once(service.#server, 'listening');
    return service;
  }

  url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Waits until nothing is executed or delivered any more. */
  async idle(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    if (this.#failure !== undefined) throw new Error('the service failed', { cause: this.#failure });
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const url = new URL(request.url ?? '', 'http://host');
    const [, , endpoint = '', operation = '', id = ''] = url.pathname.split('/');
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    if (operation === 'run' || operation === 'runsync')
      return this.#submit(endpoint, operation, request.headers['idempotency-key']?.toString(), text);
    if (operation === 'purge-queue') return this.#purge(endpoint);
    const job = this.#jobs.get(id);
    if (job === undefined) return refusal(404);
    switch (operation) {
      case 'status':
      case 'status-sync':
        return { status: 200, document: view(job) };
      case 'cancel':
        return this.#cancel(job);
      case 'retry':
        return this.#retry(job);
      default:
        return read(job, url.searchParams.get('after'));
    }
  }

  async #submit(endpoint: string, operation: 'run' | 'runsync', key: string | undefined, text: string): Promise<Reply> {
    const known = key === undefined ? undefined : this.#keys.get(key);
    if (known !== undefined && known.body !== text) return refusal(409);
    let job = this.#lies('forgets keys', known !== undefined) ? undefined : known?.job;
    if (job === undefined) {
      const id = `${operation === 'run' ? '' : 'sync-'}${randomUUID()}`;
      job = { id, endpoint, body: JSON.parse(text) as Body, status: 'IN_QUEUE', chunks: [], read: 0, ends: 0 };
      if (!this.#lies('loses a job', true)) this.#jobs.set(id, job);
      if (key !== undefined && known === undefined) this.#keys.set(key, { body: text, job });
      this.#enqueue(job);
    }
    if (operation === 'run') return { status: 200, document: { id: job.id, status: 'IN_QUEUE' } };
    while (!isTerminal(job.status)) await pause(5);
    return { status: 200, document: view(job) };
  }

  #purge(endpoint: string): Reply {
    for (const job of this.#waiting.get(endpoint)?.splice(0) ?? []) this.#end(job, 'CANCELLED');
    return { status: 200, document: { status: 'completed' } };
  }

  #cancel(job: Job): Reply {
    const cancelled = { status: 200, document: { id: job.id, status: 'CANCELLED' } };
    // On a busy machine every cancel may come too late for the lie that an execution tells.
    if (isTerminal(job.status)) return this.#lies('completes cancelled jobs', job.status === 'COMPLETED') ? cancelled : refusal(409);
    this.#end(job, 'CANCELLED');
    return cancelled;
  }

  #retry(job: Job): Reply {
    if (job.status !== 'FAILED') return refusal(409);
    Object.assign(job, { status: 'IN_QUEUE', output: undefined, error: undefined, chunks: [], read: 0 });
    this.#enqueue(job);
    return { status: 200, document: { id: job.id, status: 'IN_QUEUE' } };
  }

  #enqueue(job: Job): void {
    const waiting = this.#waiting.get(job.endpoint) ?? [];
    this.#waiting.set(job.endpoint, waiting);
    if (this.#lie === 'turns the queue round') waiting.unshift(job);
    else waiting.push(job);
    this.#work(job.endpoint);
  }

  #work(endpoint: string): void {
    if (this.#busy.has(endpoint)) return;
    const job = this.#waiting.get(endpoint)?.shift();
    if (job === undefined) return;
    if (endpoint === IN_ORDER) this.#busy.add(endpoint);
    this.#do(async () => {
      await this.#execute(job);
      if (this.#lies('runs a job again', job.status === 'COMPLETED')) await this.#execute(job);
      this.#busy.delete(endpoint);
      this.#work(endpoint);
    });
  }

  async #execute(job: Job): Promise<void> {
    const { input, record, ms, failing, bytes, count } = job.body.input;
    const execution = randomUUID();
    const append = (line: object): void => appendFileSync(record, `${JSON.stringify({ at: monotonicNow(), execution, ...line })}\n`);
    append({ kind: 'enter', job: job.id, input, attempt: 1, pid: process.pid });
    const made = { execution, input, pad: `${input} `.repeat(Math.ceil(bytes / (input.length + 1))).slice(0, bytes) };
    const chunks = Array.from({ length: count ?? 0 }, (_, index) => ({ ...made, index }));
    for (const { index } of chunks) append({ kind: 'chunk', index });
    job.chunks = this.#lies('drops a chunk', chunks.length > 2) ? chunks.toSpliced(1, 1) : chunks;
    await pause(ms);
    const fails = Math.random() < failing;
    append({ kind: 'exit', how: fails ? 'failed' : 'returned' });
    const completes = !isTerminal(job.status) || (job.status === 'CANCELLED' && this.#lies('completes cancelled jobs', !fails));
    if (!completes) return;
    if (fails) this.#end(job, 'FAILED', { error: `fails on purpose in ${execution}` });
    else this.#end(job, 'COMPLETED', { output: this.#output(job, count === undefined ? made : chunks) });
  }

  #output(job: Job, own: unknown): unknown {
    const other = [...this.#jobs.values()].find((each) => each.id !== job.id && each.status === 'COMPLETED');
    return other !== undefined && this.#lies('swaps outputs', true) ? other.output : own;
  }

  #end(job: Job, status: string, result: { output?: unknown; error?: string } = {}): void {
    Object.assign(job, { status, ...result });
    job.ends += 1;
    if (this.#lies('changes an end', status === 'COMPLETED'))
      this.#do(() => pause(150).then(() => void Object.assign(job, { status: 'FAILED', error: 'late' })));
    const { webhook } = job.body;
    if (webhook === undefined || this.#lies('drops a webhook', true)) return;
    const id = `${job.id}_${job.ends}`;
    const payload = { ...view(job), input: job.body.input };
    this.#do(async () => {
      await post(webhook, id, payload);
      if (this.#lies('changes a webhook', true)) await post(webhook, id, { ...payload, executionTime: 1 });
    });
  }

  /** Whether the lie is told now. */
  #lies(lie: Lie, fits: boolean): boolean {
    if (lie !== this.#lie || !fits) return false;
    this.#occasions += 1;
    return this.#occasions % LIES_EVERY === 1;
  }

  #do(work: () => Promise<void>): void {
    const done = work()
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#working.delete(done));
    this.#working.add(done);
  }
}

function view({ id, status, output, error }: Job): object {
  return { id, status, ...(output === undefined ? {} : { output }), ...(error === undefined ? {} : { error }) };
}

/** The cursor is the number of chunks that were read. */
function read(job: Job, after: string | null): Reply {
  const from = after === null ? job.read : Number(after);
  const chunks = isTerminal(job.status) ? job.chunks.slice(from) : [];
  job.read = from + chunks.length;
  const { status, error } = job;
  const document = { status, stream: chunks.map((output) => ({ output })), ...(error === undefined ? {} : { error }) };
  return { status: 200, document, headers: { 'capstan-stream-cursor': String(job.read) } };
}

function refusal(status: number): Reply {
  return { status, document: { status } };
}

/** Until it is accepted, three times at most. */
async function post(url: string, id: string, payload: object): Promise<void> {
  const body = JSON.stringify(payload);
  for (let tries = 0; tries < 3; tries += 1) {
    const at = new Date();
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(SECRET).sign(id, at, body),
    };
    const response = await fetch(url, { method: 'POST', headers, body });
    await response.arrayBuffer();
    if (response.status === 200) return;
  }
}
