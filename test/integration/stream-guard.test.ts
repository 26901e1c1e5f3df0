/** An exception while a message is handled ends its stream, with a line in the log; the process and other streams go on. */
import type { EventEmitter } from 'node:events';

import { Server, ServerCredentials, credentials, status, type ServiceError } from '@grpc/grpc-js';
import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import {
  JobServiceClient,
  JobServiceService,
  type JobReplies,
  type JobRequests,
  type JobServiceServer,
} from '../../proto/gen/capstan/v1/jobs.ts';
import { handleItem, readClientStream, readServerStream, type GuardLog } from '../../lib/stream-guard.ts';

interface Line {
  readonly level: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

function logTo(lines: Line[]): GuardLog {
  const write = (level: string) => (facts: object) => void lines.push({ level, facts: facts as Line['facts'] });
  return { info: write('info'), error: write('error') };
}

/** How a call ended; `once` of Node would reject with its error. */
function statusOf(call: EventEmitter): Promise<Pick<ServiceError, 'code' | 'details'>> {
  return new Promise((resolve) => call.once('status', resolve));
}

const request = (requestId: number): JobRequests => ({ requests: [{ requestId, endpointId: '', limitedAs: '', resent: false }] });

test('on both sides of a stream', async (t) => {
  const lines: Line[] = [];
  const stream = { name: 'JobService.Channel', log: logTo(lines), facts: { peer: 'test' } };
  let closed = 0;
  const server = new Server();
  server.addService(JobServiceService, {
    channel: (call) => {
      readServerStream<JobRequests>(call, stream, {
        onMessage: ({ requests: [first] }) => {
          if (first?.requestId === 1) throw new TypeError('a bug');
          if (first?.requestId === 2) throw new CapstanError('INVALID_ARGUMENT', 'not this one');
          call.write({ replies: [{ requestId: first?.requestId ?? 0 }] });
        },
        onClosed: () => {
          closed += 1;
          throw new Error('a bug in the end');
        },
      });
    },
  } as Partial<JobServiceServer> as JobServiceServer);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const client = new JobServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  t.teardown(() => {
    client.close();
    server.forceShutdown();
  });
  const open = (handle: (message: JobReplies) => void) => {
    const call = client.channel();
    readClientStream<JobReplies>(call, stream, handle);
    call.on('error', () => undefined);
    return call;
  };
  const heard: number[] = [];
  const good = open(({ replies }) => heard.push(replies[0]?.requestId ?? 0));
  for (const [number, code] of [
    [1, status.INTERNAL],
    [2, status.INVALID_ARGUMENT],
  ] as const) {
    const bad = open(() => undefined);
    bad.write(request(number));
    bad.write(request(3));
    const error = await statusOf(bad);
    t.is(error.code, code);
    t.is(error.details, number === 1 ? 'internal error' : 'not this one');
  }
  t.is(closed, 2);
  const failing = open(() => {
    throw new TypeError('a bug of the client');
  });
  failing.write(request(3));
  const ended = await statusOf(failing);
  t.is(ended.code, status.CANCELLED);
  good.write(request(7));
  good.end();
  await statusOf(good);
  t.deepEqual(heard, [7]);
  t.true(lines.filter(({ level }) => level === 'error').every(({ facts }) => facts['stream'] === stream.name && facts['peer'] === 'test'));
  const said = lines.map(
    ({ level, facts }) => `${level}: ${facts['err'] instanceof Error ? facts['err'].message : String(facts['reason'])}`,
  );
  for (const line of ['error: a bug', 'info: not this one', 'error: a bug in the end', 'error: a bug of the client'])
    t.true(said.includes(line), line);
});

test('the fault of one item is that item’s', (t) => {
  const lines: Line[] = [];
  const faults: unknown[] = [];
  const stream = { name: 'any', log: logTo(lines) };
  for (const item of [1, 2, 3]) {
    handleItem(
      stream,
      () => {
        if (item === 2) throw new Error(`item ${item}`);
      },
      (error) => faults.push(error),
    );
  }
  t.is(faults.length, 1);
  t.is(lines.length, 1);
});
