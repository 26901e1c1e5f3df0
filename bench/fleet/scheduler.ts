/** The real scheduler as a process, and the calls that a bench makes to it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { credentials, Metadata } from '@grpc/grpc-js';

import { SUPERVISED } from '../../supervisor/part-process.ts';
import { messageLimits } from '../../lib/batches.ts';
import { BlobPurpose, BlobServiceClient } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient, type EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const build = Buffer.from('a build that no simulated agent unpacks');

export class SchedulerProcess {
  readonly address: string;
  readonly pid: number;
  readonly #folder: string;
  readonly #child: ChildProcess;

  private constructor(folder: string, child: ChildProcess, address: string) {
    this.#folder = folder;
    this.#child = child;
    this.address = address;
    this.pid = child.pid ?? 0;
  }

  static async start(settings: Readonly<Record<string, string>>): Promise<SchedulerProcess> {
    const folder = await mkdtemp(join(tmpdir(), 'capstan-fleet-'));
    const log = openSync(join(folder, 'scheduler.log'), 'a');
    // A part uses its IPC channel only if its supervisor says that it is supervised.
    const supervised = { [SUPERVISED]: '1' };
    const env = { ...process.env, ...supervised, CAPSTAN_DATA_DIR: folder, CAPSTAN_GRPC_PORT: '0', CAPSTAN_LOG_LEVEL: 'warn', ...settings };
    const child = spawn(process.execPath, [tool, 'scheduler'], { env, stdio: ['ignore', log, log, 'ipc'] });
    const answer = await Promise.race([once(child, 'message'), once(child, 'exit')]);
    const [message] = answer as [{ readonly type?: string; readonly address?: string } | number | null];
    if (typeof message !== 'object' || message?.type !== 'ready' || message.address === undefined) {
      throw new Error(`the scheduler did not start:\n${await readFile(join(folder, 'scheduler.log'), 'utf8')}`);
    }
    return new SchedulerProcess(folder, child, message.address);
  }

  secret(name: 'api-key' | 'join-token'): Promise<string> {
    return readFile(join(this.#folder, 'secrets', name), 'utf8').then((text) => text.trim());
  }

  /** Uploads a build and deploys the endpoints, `atOnce` in each deployment. */
  async deploy(endpoints: readonly EndpointSpec[], atOnce: number): Promise<void> {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${await this.secret('api-key')}`);
    const blobs = new BlobServiceClient(this.address, credentials.createInsecure());
    const control = new ControlServiceClient(this.address, credentials.createInsecure(), messageLimits);
    const buildDigest = createHash('sha256').update(build).digest('hex');
    await new Promise<void>((resolve, reject) => {
      const put = blobs.put(metadata, (error) => (error === null ? resolve() : reject(error)));
      put.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BUILD, size: build.length, digest: buildDigest } } });
      put.write({ part: { $case: 'data', value: build } });
      put.end();
    });
    for (let from = 0; from < endpoints.length; from += atOnce) {
      const request = { environment: '', buildDigest, buildSize: build.length, endpoints: endpoints.slice(from, from + atOnce), keep: [] };
      await new Promise<void>((resolve, reject) => {
        control.deploy(request, metadata, (error) => (error === null ? resolve() : reject(error)));
      });
    }
    blobs.close();
    control.close();
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, 'exit');
      this.#child.kill('SIGTERM');
      await exited;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}
