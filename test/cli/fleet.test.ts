/** What a build leaves to its hosts: a deployment that no host can start stops before the upload, unless it is wanted. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';

import test from 'ava';

import type { Application } from '../../compiler/application/application.ts';
import { fittingBuild, lackingPackages, type FleetCheck, type HostOffer } from '../../cli/deploy/fleet.ts';
import { checkHardware, lackingHardware, type HostHardware } from '../../cli/deploy/fleet-hardware.ts';
import { lackingLanguages, type HostLanguages } from '../../cli/deploy/fleet-languages.ts';
import { allowsNode, requiredLanguages, type RequiredLanguages } from '../../compiler/build/language-needs.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { stepText, createActivity } from '../../terminal/activity.ts';
import { folderOf } from '../support/folder.ts';

const endpoint = (name: string, packages: readonly string[], imageName = ''): unknown => ({ spec: { name, packages, imageName } });
const applicationOf = (...endpoints: readonly unknown[]): Application => ({ endpoints }) as unknown as Application;
const node: HostOffer = { packages: ['numpy'], images: ['debian:12'] };
const able: HostOffer = { ...node, packages: ['torch', 'numpy'] };

test('an endpoint lacks packages unless one node has all of them, or an image with them', (t) => {
  const application = applicationOf(endpoint('a', ['torch', 'numpy']), endpoint('b', []), endpoint('c', ['torch'], 'own:1'));
  t.deepEqual(lackingPackages(application, [node]), ['endpoint a needs torch, numpy, and no connected node has them']);
  t.deepEqual(lackingPackages(application, [{ ...node, packages: ['torch'] }, node]).length, 1, 'half of them on each of two nodes');
  t.deepEqual(lackingPackages(application, []), ['endpoint a needs torch, numpy, and no node is connected']);
  t.deepEqual(lackingPackages(application, [able]), []);
  for (const image of ['capstan/base-python:latest', 'localhost/capstan/base-python-cuda:1'])
    t.deepEqual(lackingPackages(application, [{ ...node, images: [image] }]), []);
  for (const image of ['capstan/base-node:latest', 'capstan/base-python-of-a-stranger:1'])
    t.is(lackingPackages(application, [{ ...node, images: [image] }]).length, 1, image);
});

const none: RequiredLanguages = { python: undefined, node: undefined };
const host: HostLanguages = { runtimes: ['thread', 'process'], images: [], nodeVersion: '24.1.0', pythonVersion: '3.11.2' };

test('a Python or Node that no connected node has is named, with what would serve', (t) => {
  const functions = (module: string): readonly unknown[] => [{ name: 'f', module }];
  const spec = (more: object): unknown => ({
    spec: { name: 'a', functions: [], command: [], packages: [], python: '', imageName: '', ...more },
  });
  const python = functions('main.py');
  const found = (more: object, required = none, on: readonly HostLanguages[] = [host]): string => {
    const [lacking] = lackingLanguages(applicationOf(spec(more)), required, on);
    return lacking === undefined ? '' : `${lacking.text}; ${lacking.outcome}`;
  };
  t.is(
    found({ functions: python, python: '3.12' }),
    'endpoint a needs Python 3.12, for which its packages are built, and the connected nodes have Python 3.11.2; ' +
      'its jobs and requests wait until a node joins that has it, or is built with --python 3.11',
  );
  const newer = { ...none, python: '>=3.12' };
  t.regex(found({ functions: python, python: '3.12' }, newer), /joins that has it$/, 'no build for 3.11 is allowed');
  t.is(
    found({ functions: python }, newer),
    'endpoint a needs Python >=3.12 (pyproject.toml), and the connected nodes have Python 3.11.2; ' +
      'its workers start on what there is, and may fail; a node with it, or an image of your own (image), would serve it',
  );
  for (const command of [['python3', 'x.py'], ['/usr/bin/python3.11']]) t.regex(found({ command }, newer), /needs Python >=3\.12/);
  t.regex(found({ command: ['uvicorn', 'a:b'], python: '3.12' }), /needs Python 3\.12/);
  t.regex(
    found({ functions: python }, none, [{ ...host, pythonVersion: '' }]),
    /needs Python >=3\.8, and no connected node has Python; its jobs/,
  );
  t.regex(
    found({ functions: functions('main.ts') }, { ...none, node: '20.x' }),
    /needs Node 20\.x \(engines of package\.json\), .* Node 24\.1\.0; its workers/,
  );

  const others = [host, { ...host, pythonVersion: '3.12.4' }];
  t.is(found({ functions: python, python: '3.12' }, newer, others), '', 'one node has it');
  t.is(found({ functions: python, python: '3.12' }, newer, []), '', 'no node: not known');
  const engine = { ...host, runtimes: ['process', 'container'], images: ['capstan/base-python:latest'] };
  t.is(found({ functions: python, python: '3.12' }, newer, [engine]), '', 'the image has a Python of its own');
  t.not(found({ functions: python, python: '3.12' }, newer, [{ ...engine, images: ['capstan/base-node:latest'] }]), '');
  t.is(found({ functions: python, python: '3.12', imageName: 'own:1' }, newer), '');
  for (const more of [{ functions: python, python: '3.11' }, { functions: functions('main.ts') }, { command: ['./serve'] }])
    t.is(found(more, { python: '>=3.9,<3.13', node: '>=20' }), '');
});

test('engines of package.json and requires-python are what a project requires', async (t) => {
  const folder = await folderOf(t, {
    'package.json': '{"engines":{"node":"^22"}}',
    'pyproject.toml': '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.12"\n',
  });
  t.deepEqual(await requiredLanguages(folder), { python: '>=3.12', node: '^22' });
  for (const text of ['{"engines":7}', '{', 'null', '{"engines":{"node":" "}}'])
    t.deepEqual(await requiredLanguages(await folderOf(t, { 'package.json': text })), none, text);
  t.deepEqual(await requiredLanguages(await folderOf(t)), none);
});

test('ranges of Node are those of npm', (t) => {
  const allowed = [
    '*',
    '',
    '24',
    '24.x',
    'v24.1.0',
    '24.1',
    '>=20',
    '>= 20 <25',
    '^24.0.0',
    '~24.1',
    '18 || 24',
    '18 - 24',
    '<=24',
    '>23',
    'lts/*',
    '<26 >20',
    '=24.1.0',
  ];
  for (const range of allowed) t.true(allowsNode(range, '24.1.0'), range);
  for (const range of [
    '20',
    '20.x',
    '^22.1',
    '~24.0.1',
    '>=24.2',
    '<24',
    '18 || 20',
    '18 - 23',
    '>24',
    '>=18 <23',
    '24.0.0',
    '^0.24.1',
    '<=24.0',
  ])
    t.false(allowsNode(range, '24.1.0'), range);
  t.deepEqual(
    ['^0.2.3', '^0.2', '^0.0.3', '^0'].map((range) => allowsNode(range, '0.2.9')),
    [true, true, false, true],
  );
});

test('hardware that no connected node has is named, with what there is', async (t) => {
  const spec = (name: string, more: object): unknown => ({
    spec: { name, gpuIds: '', gpuCount: 0, cpu: '', functions: [], command: [], packages: [], python: '', imageName: '', ...more },
  });
  const gpu = { model: 'NVIDIA L4', memoryBytes: 23e9, count: 2 };
  const types: readonly HostHardware[] = [
    { cpus: 8, memoryBytes: 31e9, devices: [gpu] },
    { cpus: 2, memoryBytes: 4e9, devices: [] },
  ];
  const found = (more: object, on = types): string | undefined => lackingHardware(applicationOf(spec('a', more)), on)[0];
  for (const fits of [{ gpuIds: 'L4' }, { gpuIds: 'ADA_24,AMPERE_24', gpuCount: 2 }, { cpu: 'cpu3c-8-32' }, {}])
    t.is(found(fits), undefined);
  t.is(found({ gpuIds: 'ADA_24' }), 'endpoint a needs ADA_24, and the connected nodes have 2 × NVIDIA L4');
  t.is(found({ gpuIds: 'L4', gpuCount: 4 }), 'endpoint a needs 4 × L4, and the connected nodes have 2 × NVIDIA L4');
  t.is(found({ gpuIds: 'L4' }, types.slice(1)), 'endpoint a needs L4, and no connected node has a GPU');
  t.is(found({ gpuIds: 'L4' }, []), 'endpoint a needs L4, and no node is connected');
  t.is(found({ cpu: 'cpu5c-16-32' }), 'endpoint a needs cpu5c-16-32, and the largest connected node has 8 processors and 31 GB of memory');

  let printed = '';
  const terminal = createTerminal({ out: { write: () => true }, err: { write: (text) => (printed += text) }, colours: false });
  const check = async (isStrict: boolean): Promise<void> =>
    checkHardware(applicationOf(spec('a', { gpuIds: 'ADA_24' })), {
      types: async () => Promise.resolve(types.map((each) => ({ ...each, ...host }))),
      required: none,
      isStrict,
      terminal,
    });
  await check(false);
  t.regex(printed, /^! endpoint a needs ADA_24, .*; its jobs and requests wait until a node joins that has it\n$/);
  await t.throwsAsync(check(true), { code: 'CONFLICT', message: /^nothing was uploaded: endpoint a needs ADA_24/ });
});

interface Asked {
  readonly built: { readonly application: Application; readonly name: string };
  readonly printed: string;
}

async function fitted(application: Application, changes: Partial<FleetCheck<Asked['built']>>): Promise<Asked> {
  let printed = '';
  const terminal = createTerminal({ out: { write: () => true }, err: { write: (text) => (printed += text) }, colours: false });
  const built = await fittingBuild(
    { application, name: 'first' },
    {
      types: async () => Promise.resolve([node]),
      allowMissing: false,
      bundled: async () => Promise.resolve({ application, name: 'bundled' }),
      pressed: null,
      terminal,
      ...changes,
    },
  );
  return { built, printed };
}

test('without a person the packages are bundled; where no node is connected a deployment stops, with --allow-missing it goes on', async (t) => {
  const lacking = applicationOf(endpoint('a', ['torch']));
  const bundled = await fitted(lacking, {});
  t.deepEqual(
    [bundled.built.name, bundled.printed],
    ['bundled', '=> endpoint a needs torch, and no connected node has it: building with the packages\n'],
  );
  const error = await t.throwsAsync(fitted(lacking, { types: async () => Promise.resolve([]) }), {
    message: 'nothing was uploaded: endpoint a needs torch, and no node is connected',
  });
  t.like(error, { code: 'CONFLICT' });
  t.regex((error as { hint?: string } | undefined)?.hint ?? '', /--bundle-base-packages.*--allow-missing/);
  const allowed = await fitted(lacking, { allowMissing: true });
  t.is(allowed.built.name, 'first');
  t.is(allowed.printed, '! endpoint a needs torch, and no connected node has it; its jobs stay queued until a node joins that has\n');
  const able_ = await fitted(lacking, { types: async () => Promise.resolve([able]) });
  t.deepEqual([able_.built.name, able_.printed], ['first', '']);
  const none = await fitted(applicationOf(endpoint('a', [])), { types: async () => Promise.reject(new Error('asked')) });
  t.is(none.built.name, 'first', 'what needs nothing of its hosts is not asked for');
});

test('a person chooses by one key', async (t) => {
  const lacking = applicationOf(endpoint('a', ['torch']));
  const press = (key: string | null): Partial<FleetCheck<Asked['built']>> => ({ pressed: async () => Promise.resolve(key) });
  t.is((await fitted(lacking, press('b'))).built.name, 'bundled');
  t.is((await fitted(lacking, press('d'))).built.name, 'first');
  for (const key of ['x', '\r', null]) await t.throwsAsync(fitted(lacking, press(key)), { message: /^nothing was uploaded/ });
});

test('a key is read from a real terminal without a line end, and Ctrl+C is no key', async (t) => {
  // Python has terminals of its own; the program under test is at the other end of one.
  const program = `
import os, pty, sys
keys = sys.argv[1].encode()
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
heard = b""
while b"?" not in heard:
    heard += os.read(terminal, 100)
os.write(terminal, keys)
while True:
    try:
        part = os.read(terminal, 100)
    except OSError:
        break
    if not part:
        break
    heard += part
os.waitpid(pid, 0)
sys.stdout.write(heard.decode())
`;
  const under = `
import { pressedKey } from ${JSON.stringify(join(import.meta.dirname, '../../terminal/key-press.ts'))};
const key = pressedKey(process.stdin);
process.stdout.write('?');
process.stdout.write(JSON.stringify(await key));
`;
  for (const [key, expected] of [
    ['B', '"b"'],
    ['\u0003', 'null'],
  ] as const) {
    const child = spawn('python3', ['-c', program, key, process.execPath, '--input-type=module', '--eval', under], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let heard = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (heard += text));
    await new Promise((resolve) => child.on('close', resolve));
    t.is(heard, `?${expected}`);
  }
});

test('a step shows its amount, rate and time left once they are known', (t) => {
  const step = { text: 'downloading', detail: '', done: 0, before: 0, total: 0, elapsedMs: 0 };
  t.is(stepText(step), 'downloading');
  t.is(stepText({ ...step, elapsedMs: 61_000, detail: 'numpy' }), 'downloading (numpy), 1 min 1 s');
  t.is(stepText({ ...step, done: 423, total: 423, elapsedMs: 10_043 }), 'downloading 423 B of 423 B, 42 B/s, 0 s left');
  t.is(stepText({ ...step, total: 10_000_000 }), 'downloading 0 B of 10.0 MB');
  t.is(
    stepText({ ...step, total: 10_000_000, done: 2_500_000, elapsedMs: 1000, detail: 'numpy' }),
    'downloading 2.5 MB of 10.0 MB, 2.5 MB/s, 3 s left (numpy)',
  );
});

test('the rate of an upload that continues does not count what was sent before', (t) => {
  const step = { text: 'uploading', detail: '', done: 9_000_000, before: 8_000_000, total: 10_000_000, elapsedMs: 1000 };
  t.is(stepText(step), 'uploading 9.0 MB of 10.0 MB, 1.0 MB/s, 1 s left');
});

test('a long step is a changing line on a terminal, and one line every ten seconds elsewhere', (t) => {
  const shown = (
    isTTY: boolean,
  ): { readonly run: (ms: number) => void; readonly activity: ReturnType<typeof createActivity>; readonly text: () => string } => {
    let text = '';
    let now = 0;
    let timer: { readonly ms: number; readonly call: () => void; next: number } | null = null;
    const err = { isTTY, write: (part: string) => (text += part) };
    const activity = createActivity(createTerminal({ out: err, err, colours: false }), {
      now: () => now,
      every(ms, call) {
        const own = { ms, call, next: now + ms };
        timer = own;
        return () => {
          if (timer === own) timer = null;
        };
      },
    });
    const run = (ms: number): void => {
      for (const end = now + ms; now < end;) {
        now += 100;
        if (timer !== null && now >= timer.next) {
          timer.next += timer.ms;
          timer.call();
        }
      }
    };
    return { run, activity, text: () => text };
  };
  const log = shown(false);
  log.activity.begin('resolving');
  log.run(9_900);
  log.activity.begin('downloading');
  log.activity.at(0, 4_000_000, 'numpy');
  log.activity.at(1_000_000, 4_000_000);
  log.run(20_000);
  log.activity.end();
  log.run(60_000);
  t.is(
    log.text(),
    '=> downloading 1.0 MB of 4.0 MB, 100.0 kB/s, 30 s left (numpy)\n=> downloading 1.0 MB of 4.0 MB, 50.0 kB/s, 1 min 0 s left (numpy)\n',
  );
  const live = shown(true);
  live.activity.begin('resolving');
  live.run(2_000);
  live.activity.end();
  const clear = '\r\u001B[2K';
  t.is(live.text(), `=> resolving${clear}=> resolving, 1 s${clear}=> resolving, 2 s${clear}`);
  live.activity.at(1, 2);
  live.run(5_000);
  t.false(live.text().includes('1 B'), 'what ended shows nothing');
});
