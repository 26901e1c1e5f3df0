/**
 * Messages that fit their schema and mean nothing, to every unary method of the scheduler, from callers who
 * may: each is answered, and none by a fault of ours. What a schema does not fit gRPC itself answers.
 */
import { Client, credentials, status, type MethodDefinition, type ServiceError } from '@grpc/grpc-js';
import test from 'ava';

import { BlobServiceService } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceService } from '../../proto/gen/capstan/v1/control.ts';
import { JobServiceService } from '../../proto/gen/capstan/v1/jobs.ts';
import { NodeServiceService } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

type Method = MethodDefinition<unknown, unknown>;

/** Messages to each method. */
const MESSAGES = 25;
const LONGEST_ANSWER_MS = 60_000;
const texts = [
  '',
  ' ',
  'x',
  'default',
  'echo',
  'host',
  '\0',
  '😀',
  'a'.repeat(5_000),
  '__proto__',
  'toString',
  '../..',
  '-1',
  'run',
  'f'.repeat(64),
];
const counts = [0, 1, 2, 1_000, 65_535, 2_147_483_647, 4_294_967_295];

/** The same numbers for the same seed (xorshift). */
function chooser(seed: number): <T>(from: readonly T[]) => T {
  let state = seed;
  return (from) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return from[Math.abs(state) % from.length] as (typeof from)[number];
  };
}

/** A message with every field filled at random: one byte string of the wire that many schemas take as theirs. */
function wire(pick: ReturnType<typeof chooser>, levels: number): Buffer {
  const parts: Buffer[] = [];
  for (let field = 1; field <= 12; field += 1) {
    const kind = pick(['none', 'none', 'number', 'text', 'text', 'message']);
    if (kind === 'none') continue;
    if (kind === 'number') parts.push(varint(field << 3), varint(pick(counts)));
    else {
      const inner = kind === 'message' && levels > 0 ? wire(pick, levels - 1) : Buffer.from(pick(texts));
      parts.push(varint((field << 3) | 2), varint(inner.length), inner);
    }
  }
  return Buffer.concat(parts);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
  return Buffer.from([...bytes, left]);
}

test('messages without a meaning are answered, by no fault of ours', async (t) => {
  const seed = Math.floor(Number(process.env['CAPSTAN_TEST_SEED'] ?? Math.random() * 2 ** 31)) || 1;
  t.log(`CAPSTAN_TEST_SEED=${seed}`);
  const pick = chooser(seed);
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  await scheduler.deploy([{ name: 'echo', env: { A: 'b' } }]);
  await scheduler.join('host');
  const client = new Client(scheduler.handle.address, credentials.createInsecure());
  t.teardown(() => client.close());
  const callers = [scheduler.secret('api-key'), scheduler.secret('gateway-token')].map((token) => scheduler.bearer(token));
  const services = [JobServiceService, ControlServiceService, BlobServiceService, NodeServiceService];
  const methods = services
    .flatMap((service) => Object.values(service) as unknown as Method[])
    .filter(({ requestStream, responseStream }) => !requestStream && !responseStream);
  t.true(methods.length > 35);
  const faults = new Map<string, string>();
  let answered = 0;
  for (let round = 0; round < MESSAGES; round += 1) {
    await Promise.all(
      methods.map(async ({ path, requestDeserialize, responseDeserialize }) => {
        const bytes = wire(pick, 3);
        try {
          requestDeserialize(bytes);
        } catch {
          return; // of another schema
        }
        const error = await new Promise<ServiceError | null>((resolve) => {
          const options = { deadline: Date.now() + LONGEST_ANSWER_MS };
          client.makeUnaryRequest(path, (same: Buffer) => same, responseDeserialize, bytes, pick(callers), options, resolve);
        });
        answered += 1;
        const ours: readonly number[] = [status.INTERNAL, status.UNKNOWN, status.DEADLINE_EXCEEDED, status.UNAVAILABLE, status.DATA_LOSS];
        const unclear = /undefined|TypeError|Cannot read|\[object|is not a function/;
        if (error !== null && (ours.includes(error.code) || unclear.test(error.details)))
          faults.set(`${path} ${error.code} ${error.details}`, bytes.toString('hex'));
      }),
    );
  }
  t.deepEqual([...faults], []);
  t.log(`${answered} messages fitted`);
  t.true(answered > 5 * methods.length, `${answered} were answered`);
});
