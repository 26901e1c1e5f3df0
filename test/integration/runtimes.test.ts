/** Which runtime a release gets, and which nodes may take its workers. */
import test, { type ExecutionContext } from 'ava';

import { EndpointKind, JobKind } from '../../proto/gen/capstan/v1/common.ts';
import { CallStyle, type FunctionSpec, type Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { DeployRequest, DeployResponse, EndpointSpec, ListEndpointsResponse } from '../../proto/gen/capstan/v1/control.ts';
import { endpointSpec, TestScheduler, testInventory, unary } from '../support/scheduler-client.ts';

async function open(t: ExecutionContext): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open({});
  t.teardown(() => scheduler.close());
  return scheduler;
}

const fn = (name: string, module: string): FunctionSpec => ({ name, module, parameters: [], callStyle: CallStyle.UNSPECIFIED });
const python: Partial<EndpointSpec> = { name: 'py', workersMin: 1, functions: [fn('f', 'main.py')] };
const node: Partial<EndpointSpec> = { name: 'ts', workersMin: 1, functions: [fn('g', 'main.ts')] };

/** What a node that offers `inventory` is asked to run: runtime, image and module of each worker. */
async function asked(t: ExecutionContext, spec: Partial<EndpointSpec>, inventory: Partial<Inventory>): Promise<string[]> {
  const scheduler = await open(t);
  await scheduler.deploy([spec]);
  const session = (await scheduler.join('one')).session({ inventory: { ...testInventory(), ...inventory } });
  let desired = await session.take('desired');
  while (desired.workers.length === 0) desired = await session.take('desired');
  const releases = new Map(desired.releases.map((release) => [release.releaseId, release]));
  return desired.workers.flatMap(({ runtime, releaseId }) => {
    const release = releases.get(releaseId);
    return [
      runtime,
      runtime === 'container' ? (release?.image ?? '') : '',
      release?.functions[0]?.module ?? release?.command.join(' ') ?? '',
    ];
  });
}

const host = { runtimes: ['thread', 'process'], pythonVersion: '3.12.1' };
const engine = { runtimes: ['thread', 'process', 'container'], pythonVersion: '3.12.1', containerEngine: 'docker 27' };
const withImages = { ...engine, images: ['capstan/base-python:latest', 'docker.io/capstan/base-node:latest'] };

test('without an engine, functions in Python get a process, others a thread', async (t) => {
  t.deepEqual(await asked(t, python, host), ['process', '', 'main.py']);
  t.deepEqual(await asked(t, node, host), ['thread', '', 'main.ts']);
});

test('an engine that has the base image serves by it; one that lacks it leaves the work to the host', async (t) => {
  t.deepEqual(await asked(t, python, withImages), ['container', 'capstan/base-python', 'main.py']);
  t.deepEqual(await asked(t, node, withImages), ['container', 'capstan/base-node', 'main.ts']);
  t.deepEqual(await asked(t, python, engine), ['process', '', 'main.py']);
  t.deepEqual(await asked(t, { ...node, imageName: 'capstan/base-node' }, engine), ['thread', '', 'main.ts']);
});

test('an endpoint may force a runtime', async (t) => {
  t.deepEqual(await asked(t, { ...node, runtime: 'process' }, withImages), ['process', '', 'main.ts']);
  t.deepEqual(await asked(t, { ...node, runtime: 'thread' }, withImages), ['thread', '', 'main.ts']);
  t.deepEqual(await asked(t, { ...node, runtime: 'container' }, engine), ['container', 'capstan/base-node', 'main.ts']);
});

test('an image of the user’s own is a container, with our bootstrap or with its own program', async (t) => {
  const image = { imageName: 'acme/model:3' };
  t.deepEqual(await asked(t, { ...python, ...image }, engine), ['container', 'acme/model:3', 'main.py']);
  t.deepEqual(await asked(t, { ...python, ...image, functions: [] }, engine), ['container', 'acme/model:3', '']);
  t.deepEqual(await asked(t, { ...python, ...image, functions: [], command: ['serve', '-x'] }, engine), [
    'container',
    'acme/model:3',
    'serve -x',
  ]);
});

test('a load-balanced image that listens itself is a container, with its own program or a command', async (t) => {
  const own = { kind: EndpointKind.LOAD_BALANCED, functions: [], imageName: 'acme/web:1', workersMin: 1 };
  t.deepEqual(await asked(t, own, engine), ['container', 'acme/web:1', '']);
  t.deepEqual(await asked(t, { ...own, command: ['serve', '--fast'] }, engine), ['container', 'acme/web:1', 'serve --fast']);
});

test('a command without an image is a process', async (t) => {
  t.deepEqual(await asked(t, { ...python, functions: [], command: ['python3', 'worker.py'] }, host), ['process', '', 'python3 worker.py']);
});

test('packages left out of a build must be on the host, or in the image', async (t) => {
  const torch = { ...python, packages: ['torch', 'numpy'] };
  t.deepEqual(await asked(t, torch, { ...host, packages: { torch: '2.4.1', numpy: '2.1.0' } }), ['process', '', 'main.py']);
  t.deepEqual(await asked(t, torch, withImages), ['container', 'capstan/base-python', 'main.py']);
});

test('workers that bring their own program need no build', async (t) => {
  const scheduler = await open(t);
  const spec = endpointSpec({ name: 'foreign', functions: [], imageName: 'acme/model' });
  const deploy = (request: Partial<DeployRequest>) =>
    unary<DeployResponse>((done) =>
      scheduler.control.deploy(
        { environment: '', buildDigest: '', buildSize: 0, endpoints: [spec], keep: [], ...request },
        scheduler.bearer(scheduler.secret('api-key')),
        done,
      ),
    );
  const { endpoints } = await deploy({});
  t.like(endpoints[0], { buildDigest: '', spec: { imageName: 'acme/model', functions: [] } });
  await t.throwsAsync(deploy({ endpoints: [endpointSpec(node)] }), {
    message: 'build_digest: is required, because endpoint ts runs functions of a build',
  });
});

test('what no worker could run is refused', async (t) => {
  const scheduler = await open(t);
  for (const [spec, message] of [
    [{ ...node, runtime: 'rocket' }, 'ts.runtime: must be thread, process or container, not "rocket"'],
    [{ ...python, runtime: 'thread' }, 'py.runtime: must be process or container for functions in Python'],
    [{ ...node, imageName: 'acme/x', runtime: 'thread' }, 'ts.runtime: must be container for the image acme/x'],
    [{ ...node, functions: [], command: ['x'], runtime: 'thread' }, 'ts.runtime: must be process or container for a command'],
    [{ ...node, functions: [], command: ['x'], runtime: 'container' }, 'ts.imageName: is required: the image in which the command runs'],
    [{ ...node, command: ['x'] }, 'ts.command: is for foreign workers, which have no functions'],
    [
      { ...node, functions: [] },
      'ts.functions: must name at least one function, unless there is a command or an image with its own worker',
    ],
    [{ ...node, functions: [], imageName: 'capstan/base-node' }, /^ts.functions: must name at least one function/],
    [{ ...node, functions: [], command: [''] }, 'ts.command[0]: must be a non-empty string without the character NUL, not ""'],
    [{ ...node, imageName: 'capstan/base-python:2' }, 'ts.imageName: capstan/base-python:2 is for python, and the functions are not'],
    [{ ...node, imageName: 'two words' }, 'ts.imageName: must be an image reference without spaces, not "two words"'],
    [{ ...python, packages: ['scipy'] }, 'py.packages[0]: must be one of torch, torchvision, torchaudio, numpy, triton, not "scipy"'],
    [
      { ...python, kind: EndpointKind.LOAD_BALANCED, routes: { 'GET /f': 'f' }, functions: [fn('f', 'main.py'), fn('g', 'main.ts')] },
      'py.functions: must not mix Python with another language; a worker runs one language',
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
  t.like(listed.endpoints[0], { queueReason: 'NO_CAPACITY', queueDetail: 'RUNTIME_MISSING on 1 node: bare (no Python)' });
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
    desired.workers.map(({ runtime, releaseId }) => [
      runtime,
      desired.releases.find((release) => release.releaseId === releaseId)?.functions[0]?.module,
    ]),
    [['process', 'main.py']],
  );
  for (const session of [without, old, threads]) {
    t.false(session.received.some(({ event }) => event?.$case === 'desired' && event.value.workers.length > 0));
  }
});
