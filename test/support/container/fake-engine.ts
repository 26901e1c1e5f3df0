/**
 * A container engine of words alone: a small HTTP server on a unix socket that answers as the Docker
 * Engine API does and remembers what it was asked. For what no real engine shows here: GPUs, registries.
 */
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

import type Docker from 'dockerode';

import { Signals } from '../../agent/signals.ts';

export interface Asked {
  /** `POST /containers/create`, without the query. */
  readonly call: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

export class FakeEngine {
  readonly socket: string;
  readonly asked = new Signals<Asked>();
  /** Tags that it has. */
  readonly images = new Set<string>();
  /** A bridge network with this gateway, or with this range of addresses and no gateway that it tells; none when empty. */
  gateway = '';
  /** What a start answers: a refusal, since nothing can run in here. */
  startFailure = 'this engine runs nothing';
  containers: { Id: string; Labels: Record<string, string> }[] = [];
  runtimes: Record<string, { path?: string; runtimeType?: string }> = { runc: { path: 'runc' } };
  /** Called for each pull; writes its lines and ends it. */
  onPull: (image: string, answer: ServerResponse) => void = (_image, answer) => answer.end();
  #server: Server | undefined;

  constructor(socket: string) {
    this.socket = socket;
  }

  async listen(): Promise<void> {
    this.#server = createServer((request, answer) => void this.#hear(request, answer));
    this.#server.listen(this.socket);
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
    await rm(this.socket, { force: true });
  }

  /** The bodies of the containers it was asked to create. */
  get created(): Docker.ContainerCreateOptions[] {
    return this.calls('POST /containers/create').map(({ body }) => body as Docker.ContainerCreateOptions);
  }

  calls(call: string): Asked[] {
    return this.asked.items.filter((asked) => asked.call === call);
  }

  async #hear(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://engine');
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const call = `${request.method ?? ''} ${pathname}`;
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    this.asked.push({ call, query: searchParams, headers: request.headers, body });
    const [, , id] = pathname.split('/');
    const say = (status: number, value?: unknown): void => {
      answer.writeHead(status, { 'content-type': 'application/json' });
      answer.end(value === undefined ? undefined : JSON.stringify(value));
    };
    if (call === 'GET /version') {
      say(200, {
        Version: '24.0.7',
        Components: [
          { Name: 'Engine', Version: '24.0.7' },
          { Name: 'docker-init', Version: '0.19.0' },
        ],
      });
    } else if (call === 'GET /info') {
      say(200, { Runtimes: this.runtimes, DefaultRuntime: 'runc' });
    } else if (call === 'GET /images/json') {
      say(
        200,
        [...this.images].map((tag) => ({ RepoTags: [tag] })),
      );
    } else if (call === 'GET /networks') say(200, this.gateway === '' ? [] : [{ Name: 'bridge', Driver: 'bridge' }]);
    else if (call === 'GET /networks/bridge')
      say(200, { IPAM: { Config: [this.gateway.includes('/') ? { Subnet: this.gateway } : { Gateway: this.gateway }] } });
    else if (call === 'GET /containers/json') say(200, this.containers);
    else if (call === 'POST /containers/create') {
      const { Image = '' } = body as { Image?: string };
      if (this.images.has(Image)) say(201, { Id: `c${this.created.length}`, Warnings: [] });
      else say(404, { message: `No such image: ${Image}` });
    } else if (call === 'POST /images/create') {
      answer.writeHead(200, { 'content-type': 'application/json' });
      this.onPull(`${searchParams.get('fromImage') ?? ''}:${searchParams.get('tag') ?? ''}`, answer);
    } else if (pathname.endsWith('/attach')) answer.writeHead(200).flushHeaders();
    else if (pathname.endsWith('/start')) say(500, { message: this.startFailure });
    else if (request.method === 'DELETE') {
      this.containers = this.containers.filter(({ Id }) => Id !== id);
      say(204);
    } else say(404, { message: 'page not found' });
  }
}
