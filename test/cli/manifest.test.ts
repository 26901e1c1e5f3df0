/** The rules of tool_manifest.json, each broken once, named by path. */
import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { readManifest } from '../../compiler/artifact/manifest.ts';
import { explain } from '../../terminal/tool-error.ts';

const fn = { name: 'run', module: 'run.ts' };

function read(manifest: unknown) {
  return readManifest(JSON.stringify(manifest), 'tool_manifest.json');
}

/** A queue endpoint `a` with these keys. */
function queue(keys: object): unknown {
  return { resources: { a: { functions: [fn], ...keys } } };
}

function refusal(manifest: unknown): string {
  try {
    read(manifest);
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'INVALID_MANIFEST') return error.message;
    throw error;
  }
  return 'accepted';
}

test('what is not given has the service’s defaults', (t) => {
  const [endpoint] = read(queue({})).endpoints;
  t.deepEqual(endpoint, {
    name: 'a',
    kind: 'queue',
    description: '',
    imageName: '',
    workersMin: 0,
    workersMax: 3,
    idleTimeout: 5,
    keepIdle: false,
    delayTarget: 0,
    gpuIds: '',
    gpuCount: 0,
    minCuda: '',
    minDriver: '',
    cpu: '',
    functions: [fn],
    command: [],
    packages: [],
    python: '',
    env: {},
    maxConcurrency: 1,
    startTimeout: 0,
    executionTimeoutMs: 0,
    scalerType: '',
    scalerValue: 4,
    maxAttempts: 0,
    rateLimits: {},
    requestsPerWorker: null,
    network: '',
    runtime: '',
    public: false,
    routes: {},
  });
});

test('a worker that brings its own program names an image or a command instead of functions', (t) => {
  const only = (resource: object) => read({ resources: { a: resource } }).endpoints[0];
  t.like(only({ imageName: 'acme/model:3' }), { imageName: 'acme/model:3', functions: [], command: [] });
  t.like(only({ command: ['python3', 'worker.py'] }), { imageName: '', functions: [], command: ['python3', 'worker.py'] });
  t.like(only({ is_load_balanced: true, imageName: 'acme/web', runtime: 'container' }), { kind: 'load-balanced', runtime: 'container' });
});

test('every key is read', (t) => {
  const keys = {
    description: 'Answers “yes” or “no”.',
    imageName: 'img:1',
    workersMin: 1,
    workersMax: 5,
    idleTimeout: 600,
    keepIdle: true,
    delayTarget: 30,
    gpuIds: 'ADA_24',
    gpuCount: 2,
    minCuda: '12.4',
    minDriver: '550.54.15',
    env: { TOKEN: 's3cret' },
    maxConcurrency: 8,
    startTimeout: 90,
    executionTimeoutMs: 5000,
    scalerType: 'REQUEST_COUNT',
    scalerValue: 2,
    maxAttempts: 3,
    rateLimits: { run: { requests: 0, concurrent: 5 } },
    requestsPerWorker: 7,
    network: 'none',
    packages: ['torch'],
    python: '3.12',
  };
  const [endpoint] = read(queue({ ...keys, runtime: 'process' })).endpoints;
  t.deepEqual(endpoint, {
    name: 'a',
    kind: 'queue',
    functions: [fn],
    command: [],
    cpu: '',
    runtime: 'process',
    public: false,
    routes: {},
    ...keys,
  });
  t.is(read(queue({ cpu: 'cpu3c-4-8' })).endpoints[0]?.cpu, 'cpu3c-4-8');
  t.is(read(queue({ gpuIds: 'ANY' })).endpoints[0]?.gpuCount, 1);
});

test('null is as good as absent, as other tools write it', (t) => {
  t.is(
    refusal(queue({ workersMin: null, workersMax: null, gpuIds: null, cpu: null, env: null, is_load_balanced: null, runtime: null })),
    'accepted',
  );
});

test('keys that are not ours are kept, values of env are not passed on', (t) => {
  const { published } = read({ version: '1', project_name: 'p', ...(queue({ env: { TOKEN: 's3cret' }, note: { deep: 1 } }) as object) });
  const out = JSON.parse(published) as Record<string, unknown>;
  t.is(out['version'], '1');
  t.deepEqual(out['resources'], { a: { functions: [fn], note: { deep: 1 } } });
  t.false(published.includes('s3cret'));
});

test('a key that is nearly ours is told with the one that was meant; keys of other tools are not', (t) => {
  const functions = [{ ...fn, modul: 'x', is_async: true }];
  const told = (manifest: object): readonly string[] => read(manifest).warnings;
  t.deepEqual(told({ resources: { a: { functions, workerMax: 2, idle_timeout: 9, note: 1, handler: 'h' } }, version: '1', rotues: {} }), [
    'tool_manifest.json: rotues: is not a known key; did you mean routes?',
    'tool_manifest.json: resources.a.workerMax: is not a known key; did you mean workersMax?',
    'tool_manifest.json: resources.a.idle_timeout: is not a known key; did you mean idleTimeout?',
  ]);
  t.deepEqual(told({ resources: { a: { functions: [fn], volume: 'models' } } }), [
    'tool_manifest.json: resources.a.volume: is not supported; put shared files into a folder of the hosts or into the image',
  ]);
  t.deepEqual(told({ resources: { a: { functions: [fn], workersMax: 2, workerMax: 2, cpus: undefined, region: 'x' } } }), []);
});

test('a load-balanced endpoint with routes', (t) => {
  const routes = { 'GET /health': 'health', 'POST /analyze': 'analyze' };
  const functions = [
    { name: 'health', module: 'm' },
    { name: 'analyze', module: 'm' },
  ];
  const [endpoint] = read({ resources: { lb: { is_load_balanced: true, functions } }, routes: { lb: routes } }).endpoints;
  t.is(endpoint?.kind, 'load-balanced');
  t.deepEqual(endpoint?.routes, routes);
});

const broken: [string, unknown, string][] = [
  ['an array', [], 'must be an object with the key resources'],
  ['no resources', {}, 'resources: is required and must be an object with one entry per endpoint'],
  ['resources as an array', { resources: [] }, 'resources: must be an object with one entry per endpoint'],
  ['no endpoint', { resources: {} }, 'resources: must contain at least one endpoint'],
  ['an endpoint that is no object', { resources: { a: 1 } }, 'resources.a: must be an object'],
  [
    'a name with a space',
    { resources: { 'a b': { functions: [fn] } } },
    'resources["a b"]: an endpoint’s name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit',
  ],
  [
    'no functions',
    { resources: { a: {} } },
    'resources.a.functions: is required and must be an array of objects with the keys name and module, unless there is a command or an image with its own worker',
  ],
  [
    'no functions, in a base image',
    { resources: { a: { imageName: 'capstan/base-python:1' } } },
    'resources.a.functions: is required and must be an array of objects with the keys name and module, unless there is a command or an image with its own worker',
  ],
  ['functions and a command', queue({ command: ['serve'] }), 'resources.a.command: is for foreign workers, which have no functions'],
  [
    'packages that the base image does not have',
    queue({ packages: ['scipy'] }),
    'resources.a.packages[0]: must be one of torch, torchvision, torchaudio, numpy, triton, not "scipy"',
  ],
  ['an empty list of functions', queue({ functions: [] }), 'resources.a.functions: must name at least one function'],
  [
    'a function without a module',
    queue({ functions: [{ name: 'f' }] }),
    'resources.a.functions[0].module: is required and must be a string',
  ],
  [
    'a function with an empty module',
    queue({ functions: [{ name: 'f', module: '' }] }),
    'resources.a.functions[0].module: must not be empty',
  ],
  [
    'a function whose name is none',
    queue({ functions: [{ name: 'a-b', module: 'm' }] }),
    'resources.a.functions[0].name: must be the name of a function',
  ],
  [
    'two functions in a queue endpoint',
    queue({ functions: [fn, { name: 'g', module: 'm' }] }),
    'resources.a.functions: a queue endpoint must have exactly one function, not 2',
  ],
  ['workersMin as text', queue({ workersMin: '1' }), 'resources.a.workersMin: must be an integer between 0 and 1000, not "1"'],
  ['workersMax below 0', queue({ workersMax: -1 }), 'resources.a.workersMax: must be an integer between 0 and 1000, not -1'],
  ['workersMax that is no integer', queue({ workersMax: 1.5 }), 'resources.a.workersMax: must be an integer between 0 and 1000, not 1.5'],
  ['workersMin above workersMax', queue({ workersMin: 2, workersMax: 1 }), 'resources.a.workersMin: must be at most workersMax (1)'],
  [
    'workersMin above the default of workersMax',
    queue({ workersMin: 4 }),
    'resources.a.workersMin: must be at most workersMax (3, the default)',
  ],
  ['an idle timeout of 0', queue({ idleTimeout: 0 }), 'resources.a.idleTimeout: must be an integer between 1 and 3600 s, not 0'],
  [
    'an idle timeout above an hour',
    queue({ idleTimeout: 3601 }),
    'resources.a.idleTimeout: must be an integer between 1 and 3600 s, not 3601',
  ],
  ['gpu and cpu', queue({ gpuIds: 'ANY', cpu: 'cpu3c-4-8' }), 'resources.a.cpu: gpuIds and cpu are mutually exclusive'],
  ['a gpu count without gpus', queue({ gpuCount: 2 }), 'resources.a.gpuCount: requires gpuIds'],
  [
    'a cpu of another form',
    queue({ cpu: '4 cores' }),
    'resources.a.cpu: must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8, not "4 cores"',
  ],
  ['env with a NUL', queue({ env: { A: 'b\0c' } }), 'resources.a.env.A: must not contain the character NUL'],
  ['env with a number', queue({ env: { A: 1 } }), 'resources.a.env.A: must be a string'],
  [
    'env with a name that is none',
    queue({ env: { 'A B': 'x' } }),
    'resources.a.env["A B"]: must be a name of letters, digits and underscores',
  ],
  ['no concurrency', queue({ maxConcurrency: 0 }), 'resources.a.maxConcurrency: must be an integer between 1 and 1000, not 0'],
  [
    'an execution timeout too short',
    queue({ executionTimeoutMs: 4999 }),
    "resources.a.executionTimeoutMs: must be 0 (the service's default) or between 5000 and 604800000 ms, not 4999",
  ],
  [
    'an execution timeout too long',
    queue({ executionTimeoutMs: 604_800_001 }),
    "resources.a.executionTimeoutMs: must be 0 (the service's default) or between 5000 and 604800000 ms, not 604800001",
  ],
  ['a scaler of no kind', queue({ scalerType: 'FAST' }), 'resources.a.scalerType: must be QUEUE_DELAY or REQUEST_COUNT, not "FAST"'],
  [
    'a description of two lines',
    queue({ description: 'a\nb' }),
    'resources.a.description: must be one line of printable characters; character 2 is U+000A',
  ],
  ['a description too long', queue({ description: 'é'.repeat(501) }), 'resources.a.description: must have at most 500 characters, not 501'],
  ['no attempts', queue({ maxAttempts: 0 }), 'resources.a.maxAttempts: must be an integer between 1 and 1000, not 0'],
  ['a runtime that is not there', queue({ runtime: 'rocket' }), 'resources.a.runtime: must be thread, process or container, not "rocket"'],
  [
    'a limit of an operation that is none',
    queue({ rateLimits: { fly: { requests: 1, concurrent: 1 } } }),
    'resources.a.rateLimits.fly: must be one of run, runsync, status, stream, cancel, purge-queue, openai, requests',
  ],
  [
    'routes of a queue endpoint',
    { ...(queue({}) as object), routes: { a: { 'GET /x': 'run' } } },
    'routes.a: only an endpoint with is_load_balanced: true may have routes',
  ],
  [
    'routes of no endpoint',
    { ...(queue({}) as object), routes: { b: { 'GET /x': 'run' } } },
    'routes.b: no endpoint of this name in resources',
  ],
  [
    'a load-balanced endpoint without routes',
    queue({ is_load_balanced: true }),
    'routes.a: a load-balanced endpoint needs at least one route',
  ],
  [
    'a route without a path',
    { ...(queue({ is_load_balanced: true }) as object), routes: { a: { GET: 'run' } } },
    'routes.a.GET: must have the form <METHOD> <path>, for example POST /analyze',
  ],
  [
    'a route to no function',
    { ...(queue({ is_load_balanced: true }) as object), routes: { a: { 'GET /x': 'fly' } } },
    'routes.a["GET /x"]: the endpoint has no function fly',
  ],
  [
    'one function name twice',
    { resources: { a: { functions: [fn] }, b: { functions: [{ name: 'run', module: 'other.ts' }] } } },
    'resources.b.functions[0].name: the function run is also defined at resources.a.functions[0].name; names must be unique in an application',
  ],
];

for (const [what, manifest, rule] of broken) {
  test(`refused: ${what}`, (t) => {
    t.is(refusal(manifest), `tool_manifest.json: ${rule}`);
  });
}

test('all broken rules are named at once', (t) => {
  t.is(
    refusal({ resources: { a: { functions: [], idleTimeout: 0 }, b: { functions: [fn], cpu: 'x', workersMax: 'many' } } }),
    [
      'tool_manifest.json has 4 errors:',
      '  resources.a.idleTimeout: must be an integer between 1 and 3600 s, not 0',
      '  resources.a.functions: must name at least one function',
      '  resources.b.workersMax: must be an integer between 0 and 1000, not "many"',
      '  resources.b.cpu: must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8, not "x"',
    ].join('\n'),
  );
});

const texts: [string, string, RegExp][] = [
  ['an empty file', '', /^m is not JSON: it is empty$/],
  ['half a file', '{"resources": {', /^m is not JSON( \(line 1, column 16\))?$/],
  ['a comma too many', '{\n  "resources": {},\n}', /^m is not JSON \(line 3, column 1\)$/],
  ['a fault beside a secret', '{"env": {"TOKEN": "s3cret" x}}', /^m is not JSON \(line 1, column 28\)$/],
];
for (const [what, text, message] of texts) {
  test(`not JSON: ${what}`, (t) => {
    const error = t.throws(() => readManifest(text, 'm'), { instanceOf: CapstanError });
    t.regex(error.message, message);
    t.false(error.message.includes('s3cret'));
    const told = explain(error);
    t.is(told.exitCode, 65);
    t.regex(told.hint, /^The smallest manifest: \{"resources"/);
  });
}

test('a byte order mark does no harm', (t) => {
  t.is(readManifest(`\uFEFF${JSON.stringify(queue({}))}`, 'm').endpoints.length, 1);
});

test('the smallest manifest that the hint shows is one', (t) => {
  const { hint } = explain(t.throws(() => readManifest('{}', 'm')));
  t.is(readManifest(hint.replace(/^[^{]*/, ''), 'm').endpoints.length, 1);
});

test('a version of CUDA or of the driver has a form, and requires GPUs', (t) => {
  t.like(read(queue({ gpuIds: 'ANY', minCuda: '12.4', minDriver: '550.54.15' })).endpoints[0], { minCuda: '12.4', minDriver: '550.54.15' });
  for (const minCuda of ['12', '12.4.1', 'twelve', ' 12.4', '012.4', 12.4])
    t.throws(() => read(queue({ gpuIds: 'ANY', minCuda })), { message: /minCuda/ }, String(minCuda));
  for (const minDriver of ['5', '550.', '550.54.15.1', 'v550', 550])
    t.throws(() => read(queue({ gpuIds: 'ANY', minDriver })), { message: /minDriver/ }, String(minDriver));
  t.throws(() => read(queue({ minCuda: '12.4' })), { message: /minCuda: requires gpuIds/ });
  t.throws(() => read(queue({ cpu: 'cpu3c-1-2', minDriver: '550' })), { message: /minDriver: requires gpuIds/ });
});
