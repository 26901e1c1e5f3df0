/** The span of a wait that no dispatch ends: of jobs that are cancelled, purged, expired or deleted with their endpoint. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const TTL_MS = 10_000;

test('a job that ends in the queue leaves a span of its wait, also after a restart of the scheduler', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const stack = await Stack.start(receiver.variables);
  t.teardown(() => stack.close());
  const app = join(stack.scratch, 'app');
  await mkdir(app);
  // Without workers jobs wait for ever.
  const endpoint = { command: ['true'], workersMin: 0, workersMax: 0 };
  await writeFile(join(app, 'tool_manifest.json'), JSON.stringify({ resources: { first: endpoint, second: endpoint, third: endpoint } }));
  const ids = await stack.deploy(app);
  const [first, second, third] = [ids.get('first') ?? '', ids.get('second') ?? '', ids.get('third') ?? ''];
  /** Each job has a trace of its own, with this id. */
  const traceOf = (digit: string): string => digit.repeat(32);
  const submit = async (digit: string, options: { endpoint?: string; flags?: string; ttl?: number } = {}): Promise<string> => {
    const { endpoint: id = first, flags = '01', ttl } = options;
    const response = await stack.call(`/v2/${id}/run`, {
      method: 'POST',
      headers: { traceparent: `00-${traceOf(digit)}-00f067aa0ba902b7-${flags}` },
      body: JSON.stringify({ input: {}, ...(ttl === undefined ? {} : { policy: { ttl } }) }),
    });
    t.is(response.status, 200);
    return ((await response.json()) as { id: string }).id;
  };
  const expired = await submit('1', { endpoint: third, ttl: TTL_MS });
  const cancelled = await submit('2');
  const unsampled = await submit('3', { flags: '00' });
  const purged = await submit('4');
  const deleted = await submit('5', { endpoint: second });
  const before = BigInt(Date.now()) * 1_000_000n;
  stack.signal('scheduler', 'SIGKILL');
  for (const job of [cancelled, unsampled])
    await until('the job is cancelled', async () => (await stack.call(`/v2/${first}/cancel/${job}`, { method: 'POST' })).ok);
  await stack.call(`/v2/${first}/purge-queue`, { method: 'POST' });
  await stack.tool('endpoints', 'delete', 'second');

  const waitOf = (digit: string): Promise<ReceivedSpan> =>
    until(`the wait of job ${digit}`, () => receiver.of(traceOf(digit)).find(({ name }) => name === 'wait in queue'), 30_000);
  for (const [digit, job, endpointId, outcome, failure] of [
    ['2', cancelled, first, 'cancelled', 'cancelled'],
    ['4', purged, first, 'cancelled', 'purged from the queue'],
    ['5', deleted, second, 'cancelled', 'the endpoint was deleted'],
    ['1', expired, third, 'expired', 'ttl exceeded'],
  ] as const) {
    const span = await waitOf(digit);
    const request = receiver.of(traceOf(digit)).find(({ service }) => service === 'capstan-gateway');
    t.like(span, { service: 'capstan-scheduler', parentId: request?.spanId ?? '', failure }, outcome);
    t.deepEqual(span.attributes, {
      'capstan.job.id': job,
      'capstan.endpoint.id': endpointId,
      'capstan.attempt': 1,
      'capstan.outcome': outcome,
    });
    t.true(span.startNs < before && span.endNs > before, 'it waited since its submission');
  }
  t.deepEqual(receiver.of(traceOf('3')), []);
});
