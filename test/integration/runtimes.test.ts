/** Which runtime a release gets, and which nodes may take its workers. */
import test, { type ExecutionContext } from 'ava';

import { EndpointKind, JobKind } from '../../proto/gen/capstan/v1/common.ts';
import { CallStyle, type FunctionSpec, type Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { EndpointSpec, ListEndpointsResponse } from '../../proto/gen/capstan/v1/control.ts';
import { TestScheduler, testInventory, unary } from '../support/scheduler-client.ts';

async function open(t: ExecutionContext): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open({});
  t.teardown(() => scheduler.close());
  return scheduler;
}

const fn = (name: string, module: string): FunctionSpec => ({ name, module, parameters: [], callStyle: CallStyle.UNSPECIFIED });
const python: Partial<EndpointSpec> = { name: 'py', workersMin: 1, functions: [fn('f', 'main.py')] };
const node: Partial<EndpointSpec> = { name: 'ts', workersMin: 1, functions: [fn('g', 'main.ts')] };

test('functions in Python get a process, others a thread unless they ask for a process', async (t) => {
  const scheduler = await open(t);
  const asked = { ...node, name: 'ts-process', runtime: 'process', functions: [fn('h', 'main.ts')] };
  const { endpoints } = await scheduler.deploy([python, node, asked]);
  t.deepEqual(
    endpoints.map(({ spec }) => spec?.runtime),
    ['process', 'thread', 'process'],
  );
});

test('what no worker could run is refused', async (t) => {
  const scheduler = await open(t);
  for (const [spec, message] of [
    [{ ...node, runtime: 'rocket' }, 'ts.runtime: must be thread or process'],
    [{ ...python, runtime: 'thread' }, 'py.runtime: must be process for functions in Python'],
    [
      { ...python, kind: EndpointKind.LOAD_BALANCED, functions: [fn('f', 'main.py'), fn('g', 'main.ts')] },
      'py.functions: are in Python and in another language; a worker runs one language',
    ],
  ] as const) {
    await t.throwsAsync(scheduler.deploy([spec as Partial<EndpointSpec>]), { message });
  }
});

test('a job whose function no node can run says so', async (t) => {
  const scheduler = await open(t);
  const { endpoints } = await scheduler.deploy([python]);
  const session = (await scheduler.join('bare')).session({ inventory: { ...testInventory(), runtimes: ['thread', 'process'] } });
  await session.take('desired');
  const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
  const job = { jobId: 'job-1', kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 };
  await scheduler.channel().ask(endpoints[0]?.id ?? '', { $case: 'submit', value: job });
  const listed = await unary<ListEndpointsResponse>((done) =>
    scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  t.like(listed.endpoints[0], { queueReason: 'NO_CAPACITY', queueDetail: 'bare: RUNTIME_MISSING' });
});

test('a release for Python goes to a node with Python 3.8 or newer', async (t) => {
  const scheduler = await open(t);
  await scheduler.deploy([python]);
  const offers = async (name: string, inventory: Partial<Inventory>) =>
    (await scheduler.join(name)).session({ inventory: { ...testInventory(), ...inventory } });
  const without = await offers('without', { runtimes: ['thread', 'process'] });
  const old = await offers('old', { runtimes: ['thread', 'process'], pythonVersion: '3.7.16' });
  const threads = await offers('threads', { pythonVersion: '3.12.1' });
  const fitting = await offers('fitting', { runtimes: ['thread', 'process'], pythonVersion: '3.10.0' });
  let desired = await fitting.take('desired');
  while (desired.workers.length === 0) desired = await fitting.take('desired');
  t.deepEqual(
    desired.releases.map(({ runtime, functions }) => [runtime, functions[0]?.module]),
    [['process', 'main.py']],
  );
  for (const session of [without, old, threads]) {
    t.false(session.received.some(({ event }) => event?.$case === 'desired' && event.value.workers.length > 0));
  }
});
