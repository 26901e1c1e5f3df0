/** A part as a process of its own, whose memory can be read, and connections to it by people without credentials. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

const main = join(import.meta.dirname, '../../cli/main.ts');

export class Part {
  readonly address: string;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, address: string) {
    this.#process = process;
    this.address = address;
  }

  /** Starts `capstan <name>` with these variables; ends with the test. */
  static async start(t: ExecutionContext, name: 'scheduler' | 'gateway', variables: Readonly<Record<string, string>>): Promise<Part> {
    const env = {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      CAPSTAN_LOG_LEVEL: 'warn',
      CAPSTAN_SUPERVISED: '1',
      ...variables,
    };
    const child = spawn(process.execPath, [main, name], { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    let said = '';
    child.stderr?.on('data', (text: Buffer) => (said += text.toString()));
    const ended = once(child, 'exit');
    t.teardown(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    const ready = once(child, 'message') as Promise<[{ address: string }]>;
    const [message] = await Promise.race([
      ready,
      ended.then(() => {
        throw new Error(`${name} ended: ${said}`);
      }),
    ]);
    return new Part(child, message.address);
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** Forgets the peak so far. */
  resetPeak(): void {
    writeFileSync(`/proc/${String(this.#process.pid)}/clear_refs`, '5');
  }

  /** The most memory it had since the peak was reset, bytes. */
  get peakBytes(): number {
    return this.#status('VmHWM');
  }

  get residentBytes(): number {
    return this.#status('VmRSS');
  }

  #status(name: string): number {
    const text = readFileSync(`/proc/${String(this.#process.pid)}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
  }
}

export interface Outcome {
  /** gRPC status; -1 when the call ended without one. */
  readonly code: number;
  /** Bytes that were written before it ended. */
  readonly sent: number;
}

/** A connection without the gRPC library: it keeps to no limit of messages or time. */
export class Stranger {
  readonly session: ClientHttp2Session;

  constructor(t: ExecutionContext, address: string) {
    this.session = connect(`http://${address}`);
    this.session.on('error', () => undefined);
    t.teardown(() => this.session.destroy());
  }

  get closed(): boolean {
    return this.session.destroyed;
  }

  /** Begins a call with a message that claims `claimed` bytes, and sends `bytes` of it; never more. */
  async send(path: string, claimed: number, bytes: number, headers: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    const stream = this.session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    let code = -1;
    stream.on('response', (head) => {
      if (head['grpc-status'] !== undefined) code = Number(head['grpc-status']);
    });
    stream.on('trailers', (trailers: IncomingHttpHeaders) => {
      if (trailers['grpc-status'] !== undefined) code = Number(trailers['grpc-status']);
    });
    stream.on('error', () => undefined);
    const closed = once(stream, 'close').catch(() => undefined);
    stream.resume();
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(claimed, 1);
    stream.write(prefix);
    let sent = 0;
    const part = Buffer.alloc(256 * 1024);
    while (sent < bytes && !stream.closed && !stream.destroyed) {
      const more = part.subarray(0, Math.min(part.length, bytes - sent));
      sent += more.length;
      if (!stream.write(more)) await Promise.race([once(stream, 'drain').catch(() => undefined), closed]);
    }
    await closed;
    return { code, sent };
  }
}
