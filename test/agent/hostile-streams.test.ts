/** Hostile messages on every stream that the agent reads, and hostile frames of workers: the agent serves on. */
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import {
  Begin,
  InvokeFromGateway,
  InvokeServiceService,
  type AgentFrame,
  type InvokeFromAgent,
  type InvokeServiceServer,
} from '../../proto/gen/capstan/v1/invoke.ts';
import { SchedulerMessage } from '../../proto/gen/capstan/v1/nodes.ts';
import { HostileMessages, seedOf } from '../support/hostile-messages.ts';
import type { FakeScheduler } from './fake-scheduler.ts';
import { startWorker } from './fixtures.ts';
import { Signals } from './signals.ts';

/** Messages of each branch. */
const COUNT = 30;
const IDLE = ({ state }: { readonly state: string }): boolean => state === 'WORKER_STATE_IDLE';

/** Messages that are one by their schema; gRPC itself refuses the others. */
function decoded<Message>(messages: HostileMessages, path: string, decode: (bytes: Buffer) => Message): Message[] {
  return [...messages.of(path, 'server', COUNT)].flatMap(({ bytes }) => {
    try {
      return [decode(bytes)];
    } catch {
      return [];
    }
  });
}

async function runs(t: ExecutionContext, scheduler: FakeScheduler, jobId: string, workerId: string): Promise<void> {
  scheduler.dispatch({ jobId, workerId }, { job: jobId });
  const { outcome, output } = await scheduler.ended(jobId);
  t.is(outcome, 'ATTEMPT_OUTCOME_COMPLETED', jobId);
  t.deepEqual(scheduler.valueOf(output), { job: jobId });
}

test('the scheduler', async (t) => {
  const { scheduler, release } = await startWorker(t, 'export async function echo(input) { return input; }', 'echo');
  const known = ['w1', 'r1', 'ep1', 'j1', 'node-1', String(release.buildDigest), 'thread', 'process'];
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    known,
  );
  for (const { events } of decoded(messages, '/capstan.v1.NodeService/Session', (bytes) => SchedulerMessage.decode(bytes))) {
    for (const { event } of events) if (event !== undefined) scheduler.send(event);
  }
  // A session of its own, whose Welcome begins anew.
  const from = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  await scheduler.hello(() => true, from);
  scheduler.send({ $case: 'gateways', value: { gateways: [] } });
  scheduler.desire([{ workerId: 'honest' }], [release]);
  await scheduler.worker('honest', IDLE, from);
  await runs(t, scheduler, 'after', 'honest');
});

/** A gateway that sends what the test wants. */
class HostileGateway {
  readonly heard = new Signals<AgentFrame>();
  readonly address: Promise<string>;
  #stream: ServerDuplexStream<InvokeFromAgent, InvokeFromGateway> | undefined;

  constructor(t: ExecutionContext) {
    const server = new Server();
    const invoke: InvokeServiceServer['invoke'] = (call) => {
      this.#stream = call;
      call.on('data', ({ frames }: InvokeFromAgent) => {
        for (const frame of frames) this.heard.push(frame);
      });
      call.on('error', () => undefined);
    };
    server.addService(InvokeServiceService, { invoke });
    this.address = new Promise((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(`127.0.0.1:${port}`) : reject(error),
      ),
    );
    t.teardown(() => server.forceShutdown());
  }

  send(message: InvokeFromGateway): void {
    this.#stream?.write(message);
  }
}

test('a gateway', async (t) => {
  const source = 'export async function echo(value) { return value; }';
  const { scheduler } = await startWorker(t, source, 'echo', { kind: 'ENDPOINT_KIND_LOAD_BALANCED', maxConcurrency: 1_000 });
  const gateway = new HostileGateway(t);
  scheduler.send({ $case: 'gateways', value: { gateways: [{ address: await gateway.address, token: 'any', httpUrl: '' }] } });
  await gateway.heard.next(({ frame }) => frame?.$case === 'serving' && frame.value.workers.length === 1);
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    ['w1', 'echo', 'GET', 'POST', 'http', 'localhost', '/', '/?value=1'],
  );
  for (const message of decoded(messages, '/capstan.v1.InvokeService/Invoke', (bytes) => InvokeFromGateway.decode(bytes)))
    gateway.send(message);
  const request = 77_777;
  const value = Begin.fromPartial({ workerId: 'w1', function: 'echo', method: 'GET', target: '/?value=1', scheme: 'http', ended: true });
  gateway.send({ frames: [{ request, frame: { $case: 'begin', value } }] });
  const answered = await gateway.heard.next(({ request: number, frame }) => number === request && frame?.$case !== 'credit');
  t.is(answered.frame?.$case, 'head', JSON.stringify(answered.frame));
  t.is(answered.frame?.$case === 'head' ? answered.frame.value.body.toString() : '', '"1"');
});

const FORGER = `
import { writeSync } from 'node:fs';
export async function echo(input) {
  if (input.header === undefined) return input;
  const header = Buffer.from(input.header);
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(input.length ?? 4 + header.length + (input.body ?? 0), 0);
  prefix.writeUInt32LE(header.length, 4);
  const frame = Buffer.concat([prefix, header, Buffer.alloc(input.body ?? 0, 32)]);
  for (let at = 0; at < frame.length;) {
    try {
      at += writeSync(3, frame, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
  await new Promise(() => setInterval(() => undefined, 1_000));
}`;

test('a worker that forges frames ends, with the reason; the node and its other workers go on', async (t) => {
  const key = 'forged#1';
  const forged: Readonly<Record<string, { readonly header: unknown; readonly body?: number; readonly length?: number }>> = {
    nothing: { header: null },
    'an unknown kind': { header: { t: '__proto__' } },
    'a duration that is text': { header: { t: 'returned', key, ms: 'soon' } },
    'a negative duration': { header: { t: 'returned', key, ms: -1 } },
    'a duration that no message carries': { header: { t: 'failed', key, ms: 1e300, error: 'x' } },
    'an error that is no text': { header: { t: 'failed', key, ms: 1, error: { a: 1 } } },
    'a job that is a number': { header: { t: 'log', stream: 'stdout', jobId: 5, text: 'x' } },
    'a line that is no text': { header: { t: 'log', stream: 'stdout', jobId: '', text: null } },
    'a detail of 30 MB': { header: { t: 'died', detail: 'x'.repeat(30_000_000) } },
    'a negative credit': { header: { t: 'http-credit', key: 'h1', count: -1 } },
    'progress of a megabyte': { header: { t: 'progress', key }, body: 1_000_000 },
    'a frame that is too long': { header: { t: 'up' }, length: 4_000_000_000 },
  };
  const names = Object.keys(forged);
  const { scheduler, release } = await startWorker(t, FORGER, 'echo');
  scheduler.desire([{}, ...names.map((_name, at) => ({ workerId: `forger-${at}` }))], [release]);
  for (const [at, name] of names.entries()) {
    const { header, ...more } = forged[name] ?? { header: {} };
    await scheduler.worker(`forger-${at}`, IDLE);
    scheduler.dispatch(
      { jobId: at === 0 ? 'forged' : `forged-${at}`, workerId: `forger-${at}` },
      { header: JSON.stringify(header), ...more },
    );
    const ended = await scheduler.ended(at === 0 ? 'forged' : `forged-${at}`);
    t.is(ended.outcome, 'ATTEMPT_OUTCOME_WORKER_LOST', name);
    t.regex(ended.error, /frame/, name);
  }
  await runs(t, scheduler, 'after', 'w1');
  t.is(scheduler.heard.items.filter(({ $case }) => $case === 'hello').length, 1, 'one session throughout');
});
