/** Stands between the tool and a gateway, and stops one exchange of a deployment at a chosen step. */
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** In the order a deployment passes them. */
export const steps = ['asked', 'half uploaded', 'uploaded', 'registering', 'registered'] as const;
export type Step = (typeof steps)[number];

export class FaultProxy {
  readonly #server = createServer((request, response) => {
    // A request that was read in part has let go of it.
    const { socket } = request;
    this.#pass(request, response).catch(() => socket.destroy());
  });
  readonly #target: () => string;
  #armed: { readonly step: Step; readonly work: () => Promise<void> } | null = null;
  /** Before the upload the tool only asks whether the service is there. */
  #hasAsked = false;

  private constructor(target: () => string) {
    this.#target = target;
  }

  static async start(target: () => string): Promise<FaultProxy> {
    const proxy = new FaultProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /**
   * The next exchange that comes to the step is held there while `work` runs, and breaks off. Once. What comes before the
   * step has happened at the gateway then, what comes after it has not.
   */
  at(step: Step, work: () => Promise<void>): void {
    this.#armed = { step, work };
    this.#hasAsked = false;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    this.#hasAsked ||= method === 'HEAD';
    const [before, middle, after]: [Step | null, Step | null, Step | null] =
      method === 'HEAD'
        ? ['asked', null, null]
        : method === 'PATCH'
          ? [null, 'half uploaded', 'uploaded']
          : this.#hasAsked
            ? ['registering', null, 'registered']
            : [null, null, null];
    await this.#fault(before, request);
    const up = forward(`${this.#target()}${url}`, { method, headers: request.headers });
    const answered = new Promise<IncomingMessage>((resolve, reject) => void up.on('response', resolve).on('error', reject));
    // It is awaited below; until then a gateway that dies must not end the test's process.
    answered.catch(() => undefined);
    const half = Number(request.headers['content-length'] ?? 0) / 2;
    let passed = 0;
    for await (const piece of request as AsyncIterable<Buffer>) {
      const rest = middle !== null && this.#armed?.step === middle ? Math.floor(half) - passed : piece.length;
      const written = new Promise<void>((resolve) => void up.write(piece.subarray(0, rest), () => resolve()));
      // A gateway that is gone, or refuses early, takes no more.
      await Promise.race([written, answered]);
      passed += piece.length;
      if (passed < half) continue;
      try {
        await this.#fault(middle, request);
      } catch (error) {
        up.destroy();
        throw error;
      }
    }
    up.end();
    const answer = await answered;
    const body: Buffer[] = [];
    for await (const piece of answer as AsyncIterable<Buffer>) body.push(piece);
    await this.#fault(after, request);
    response.writeHead(answer.statusCode ?? 0, answer.headers).end(Buffer.concat(body));
  }

  async #fault(step: Step | null, request: IncomingMessage): Promise<void> {
    if (step === null || this.#armed?.step !== step) return;
    const { work } = this.#armed;
    this.#armed = null;
    await work();
    throw new Error(`broken off at ${step}: ${request.method ?? ''}`);
  }
}
