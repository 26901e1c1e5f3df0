/**
 * What is open beside the clients of the queue during a soak: callers of a load-balanced endpoint, readers and followers of logs, a page of
 * the console, and a receiver of traces. They record nothing: a soak asks whether any of it makes a part grow.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { messageOf } from '../../../lib/to-error.ts';
import type { HistoryStack } from '../stack/stack.ts';

/** Requests of load-balanced endpoints a second, for each gateway. */
const ROUTE_RATE = 10;
const BODY_BYTES = 2_000;
const LOG_PAUSE_MS = 2_000;
const PAGE_PAUSE_MS = 3_000;
/** A followed log and the console's stream are opened anew after this time, ms, as pages that people leave are. */
const STREAM_MS = 30_000;
const HEADERS = { 'capstan-console': '/console', 'content-type': 'application/json' };
const PAGE = `query Page($work: ID!, $from: Float!) {
  endpoints { id name kind }
  workers { id state }
  nodes { id name connected }
  attention { __typename }
  jobs(endpoint: $work, limit: 50) { __typename }
  history(endpoint: $work, from: $from) { __typename }
}`;

/** Receives spans and drops them. */
export class TraceSink {
  readonly #server: Server;
  /** Requests of exporters. */
  exports = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.exports += 1;
      request.resume();
      request.once('end', () => response.setHeader('content-type', 'application/json').end('{}'));
    });
  }

  static async open(): Promise<TraceSink> {
    const sink = new TraceSink();
    sink.#server.listen(0, '127.0.0.1');
    await once(sink.#server, 'listening');
    return sink;
  }

  /** What makes a part export its traces here. */
  get variables(): Readonly<Record<string, string>> {
    const { port } = this.#server.address() as AddressInfo;
    return { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

export class Bystanders {
  readonly #stack: HistoryStack;
  readonly #ended = new AbortController();
  readonly #tasks: Promise<void>[] = [];
  /** Requests that were answered with 200, and the other outcomes, by what asked. */
  readonly #outcomes = new Map<string, Map<string, number>>();

  constructor(stack: HistoryStack) {
    this.#stack = stack;
  }

  start(): void {
    const { gateways, endpoints } = this.#stack;
    const routes = endpoints.get('routes') ?? '';
    const work = endpoints.get('work') ?? '';
    for (const gateway of gateways) {
      const url = this.#stack.url(gateway);
      this.#repeat('route', 1_000 / ROUTE_RATE, () => this.#route(url, routes));
      this.#repeat('log search', LOG_PAUSE_MS, () => this.#get(`${url}/v2/${work}/logs?contains=enters&limit=100`));
      this.#repeat('followed log', 0, () => this.#follow(`${url}/v2/${work}/logs?follow=true`, this.#authorization));
      this.#repeat('console stream', 0, () => this.#consoleStream(url));
      this.#repeat('console page', PAGE_PAUSE_MS, () => this.#page(url, work));
    }
  }

  /** Ends all of them. */
  async stop(): Promise<void> {
    this.#ended.abort();
    await Promise.all(this.#tasks);
  }

  /** A line for each kind of bystander with its outcomes. */
  report(): string[] {
    return [...this.#outcomes].map(([what, counts]) => `${what}: ${[...counts].map(([how, count]) => `${count} × ${how}`).join(', ')}`);
  }

  get #authorization(): Record<string, string> {
    return { authorization: `Bearer ${this.#stack.apiKey}` };
  }

  #repeat(what: string, pauseMs: number, act: () => Promise<number>): void {
    const counts = new Map<string, number>();
    this.#outcomes.set(what, counts);
    const { signal } = this.#ended;
    const live = async (): Promise<void> => {
      while (!signal.aborted) {
        const how = await act().then(String, (error: unknown) => (signal.aborted ? 'ended with the run' : messageOf(error)));
        counts.set(how, (counts.get(how) ?? 0) + 1);
        await pause(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    };
    this.#tasks.push(live());
  }

  async #route(url: string, endpoint: string): Promise<number> {
    const response = await fetch(`${url}/lb/${endpoint}/echo`, {
      method: 'POST',
      headers: { ...this.#authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ text: 'x'.repeat(BODY_BYTES) }),
      signal: this.#ended.signal,
    });
    await response.arrayBuffer();
    return response.status;
  }

  async #get(url: string): Promise<number> {
    const response = await fetch(url, { headers: this.#authorization, signal: this.#ended.signal });
    await response.arrayBuffer();
    return response.status;
  }

  /** Reads a response that does not end, for a while. */
  async #follow(url: string, headers: Record<string, string>): Promise<number> {
    const response = await fetch(url, { headers, signal: this.#ended.signal });
    if (response.body === null) return response.status;
    const reader = response.body.getReader();
    const timer = setTimeout(() => void reader.cancel(), STREAM_MS);
    try {
      while (!(await reader.read()).done);
    } finally {
      clearTimeout(timer);
    }
    return response.status;
  }

  async #consoleStream(url: string): Promise<number> {
    const cookie = await this.#signIn(url);
    const status = await this.#follow(`${url}/console/api/events`, { ...HEADERS, cookie });
    const { signal } = this.#ended;
    await fetch(`${url}/console/api/session`, { method: 'DELETE', headers: { ...HEADERS, cookie }, signal });
    return status;
  }

  async #signIn(url: string): Promise<string> {
    const { apiKey } = this.#stack;
    const { signal } = this.#ended;
    const response = await fetch(`${url}/console/api/session`, {
      method: 'POST',
      headers: HEADERS,
      body: JSON.stringify({ apiKey }),
      signal,
    });
    return response.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
  }

  async #page(url: string, work: string): Promise<number> {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { ...this.#authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ query: PAGE, variables: { work, from: Date.now() - 3_600_000 } }),
      signal: this.#ended.signal,
    });
    const { errors } = (await response.json()) as { errors?: readonly { readonly message: string }[] };
    if (errors !== undefined) throw new Error(errors[0]?.message);
    return response.status;
  }
}
