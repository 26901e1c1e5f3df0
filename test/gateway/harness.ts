/** A gateway in front of a fake scheduler, and HTTP calls to it. */
import { connect, type Socket } from 'node:net';

import type { ExecutionContext } from 'ava';
import { Agent } from 'undici';

import { readConfig } from '../../gateway/config.ts';
import { start, type Gateway } from '../../gateway/assembly/start.ts';
import { answerTo, type HttpReply } from '../support/http-answer.ts';
import { FakeScheduler, TOKEN } from './fake-scheduler.ts';

export const KEY = 'key-of-tests';
/** A key that may read the metrics. */
export const OPERATOR_KEY = 'key-of-operators';

export interface CallOptions {
  readonly key?: string | null;
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export interface Setup {
  readonly scheduler: FakeScheduler;
  readonly gateway: Gateway;
  /** One connection, kept alive: what comes after a refusal runs over the same socket. */
  call(method: string, path: string, options?: CallOptions): Promise<HttpReply>;
}

/** Starts both, waits until the gateway has read the directory, and cleans up with the test. */
export async function setup(t: ExecutionContext, overrides: Record<string, unknown> = {}): Promise<Setup> {
  const scheduler = await new FakeScheduler().start();
  scheduler.addKey(KEY);
  scheduler.addKey(OPERATOR_KEY, { account: 'default' });
  scheduler.addEndpoint('ep');
  const gateway = await startGateway(t, scheduler, overrides);
  t.teardown(() => {
    scheduler.stop();
  });
  const call = caller(t, gateway.url);
  await connected(call);
  return { scheduler, gateway, call };
}

export async function startGateway(
  t: ExecutionContext,
  scheduler: FakeScheduler,
  overrides: Record<string, unknown> = {},
): Promise<Gateway> {
  const config = readConfig({ port: 0, scheduler: scheduler.address, token: TOKEN, logLevel: 'silent', closeGraceMs: 0, ...overrides }, {});
  const gateway = await start(config);
  t.teardown(async () => gateway.close());
  return gateway;
}

/** Resolves when the gateway has its channel and its directory: answered by the gateway itself, without sleeping. */
export async function connected(call: Setup['call']): Promise<void> {
  for (;;) {
    const reply = await call('GET', '/v2/ep/health');
    if (reply.status !== 503) return;
  }
}

export function caller(t: ExecutionContext, url: string): Setup['call'] {
  const agent = new Agent({ connections: 1, pipelining: 1 });
  t.teardown(async () => agent.destroy());
  return async (method, path, { key = KEY, body, headers = {}, signal } = {}) => {
    return answerTo(`${url}${path}`, {
      method,
      dispatcher: agent,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
    });
  };
}

/** A raw connection, for what no HTTP client would send. */
export class RawConnection {
  readonly socket: Socket;
  #text = '';
  #closed = false;
  /** Resolves when the connection is gone. */
  readonly closed: Promise<void>;
  #wake: () => void = () => undefined;

  constructor(t: ExecutionContext, url: string) {
    const { hostname, port } = new URL(url);
    this.socket = connect(Number(port), hostname);
    this.socket.setEncoding('latin1');
    this.socket.on('data', (text: string) => {
      this.#text += text;
      this.#wake();
    });
    this.socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => {
      this.socket.on('close', () => {
        this.#closed = true;
        this.#wake();
        resolve();
      });
    });
    t.teardown(() => this.socket.destroy());
  }

  /** What came and was not answered as a whole. */
  get text(): string {
    return this.#text;
  }

  write(text: string | Buffer): this {
    this.socket.write(text);
    return this;
  }

  /** Sends a request's head with Expect: 100-continue and waits until the server has begun to handle it. */
  async begin(head: string): Promise<void> {
    this.write(`${head}Expect: 100-continue\r\n\r\n`);
    while (!this.#text.startsWith('HTTP/1.1 100 ')) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The next whole answer (by Content-Length) on this connection; null when it closed first. */
  async answer(): Promise<{ status: number; head: string; body: string } | null> {
    for (;;) {
      const end = this.#text.indexOf('\r\n\r\n');
      if (end >= 0) {
        const head = this.#text.slice(0, end);
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
        const status = Number(head.split(' ')[1]);
        if (status === 100) {
          this.#text = this.#text.slice(end + 4);
          continue;
        }
        if (this.#text.length >= end + 4 + length) {
          const body = this.#text.slice(end + 4, end + 4 + length);
          this.#text = this.#text.slice(end + 4 + length);
          return { status, head, body };
        }
      }
      if (this.#closed) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
