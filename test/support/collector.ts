/**
 * A real OpenTelemetry Collector: that of CAPSTAN_TEST_OTELCOL, or the one that `.ci/prepare` builds where there is Go. It receives OTLP
 * and sends what it received, as JSON, to a receiver of the test.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';

import { folderOf } from './folder.ts';
import { freePort } from './free-port.ts';
import { guard } from './stack.ts';

const BUILT = join(import.meta.dirname, '../../node_modules/.cache/otelcol/otelcol');

async function findCollector(): Promise<string> {
  for (const path of [process.env['CAPSTAN_TEST_OTELCOL'] ?? '', BUILT, 'otelcol'])
    if (path !== '' && (await promisify(execFile)(path, ['--version']).then(Boolean, () => false))) return path;
  return '';
}

const program = await findCollector();

/** Why tests with a Collector are skipped; empty when they are not. */
export const noCollector = program === '' ? ' (skipped: there is no otelcol; .ci/prepare builds one where there is Go)' : '';

export interface Collector {
  /** Address of OTLP over HTTP. */
  readonly http: string;
  /** Address of OTLP over gRPC. */
  readonly grpc: string;
}

/** Another program may take a port before the Collector listens on it: it is then started with others. */
const STARTS = 3;

/** Starts a Collector that passes logs and traces on to `/v1/logs` and `/v1/traces` of the receiver. */
export async function startCollector(t: ExecutionContext, receiver: { url(path: string): string }): Promise<Collector> {
  for (let start = 1; ; start += 1) {
    try {
      return await startOnce(t, receiver);
    } catch (error) {
      if (start === STARTS || !String(error).includes('address already in use')) throw error;
    }
  }
}

async function startOnce(t: ExecutionContext, receiver: { url(path: string): string }): Promise<Collector> {
  const [http, grpc] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const pipeline = { receivers: ['otlp'], exporters: ['otlp_http'] };
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: http }, grpc: { endpoint: grpc } } } },
    exporters: {
      otlp_http: {
        endpoint: receiver.url(''),
        encoding: 'json',
        compression: 'none',
        sending_queue: { enabled: false },
        retry_on_failure: { enabled: false },
      },
    },
    service: {
      telemetry: { metrics: { level: 'none' } },
      pipelines: { logs: pipeline, traces: pipeline },
    },
  };
  const file = join(await folderOf(t), 'collector.yaml');
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config));
  const collector = spawn(program, ['--config', file], { stdio: ['ignore', 'ignore', 'pipe'], env: {} });
  const exited = once(collector, 'exit');
  const watch = guard(collector.pid ?? 0);
  t.teardown(async () => {
    collector.kill();
    await exited;
    watch.kill('SIGKILL');
  });
  const said: string[] = [];
  const { promise: ready, resolve } = Promise.withResolvers<true>();
  createInterface({ input: collector.stderr }).on('line', (line) => {
    said.push(line);
    if (line.includes('Everything is ready')) resolve(true);
  });
  if (!(await Promise.race([ready, exited.then(() => false)]))) throw new Error(`the Collector ended:\n${said.join('\n')}`);
  return { http: `http://${http}`, grpc: `http://${grpc}` };
}
