/** A folder without endpoints: what it has is offered, and `capstan init --here` writes the declaration. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { readApplication } from '../../compiler/application/application.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import { declareHere } from '../../compiler/init/declare-here.ts';
import { offerFor } from '../../compiler/application/offers.ts';
import * as formerNames from '../../sdk/typescript/former-names.ts';
import { folderOf } from '../support/folder.ts';

const none = (): undefined => undefined;

const FOUND: readonly [string, Readonly<Record<string, string>>, { readonly app?: string; readonly command?: readonly string[] }][] = [
  ['FastAPI', { 'main.py': 'from fastapi import FastAPI\n\napi: FastAPI = FastAPI(title="x")\n' }, { app: 'main:api' }],
  ['Flask in a package', { 'shop/web.py': 'import flask\napp = flask.Flask(__name__)\n', 'shop/__init__.py': '' }, { app: 'shop.web:app' }],
  ['Falcon', { 'app.py': 'import falcon.asgi\napi = falcon.asgi.App()\n' }, { app: 'app:api' }],
  ['Falcon of WSGI', { 'app.py': 'from falcon import App\napi = App()\n' }, { app: 'app:api' }],
  ['BlackSheep', { 'app.py': 'from blacksheep import Application\napp = Application()\n' }, { app: 'app:app' }],
  [
    'a factory of Flask',
    { 'shop/__init__.py': 'from flask import Flask\ndef create_app(test_config=None):\n    app = Flask(__name__)\n    return app\n' },
    { app: 'shop:create_app()' },
  ],
  ['a factory of FastAPI', { 'main.py': 'from fastapi import FastAPI\ndef get_app():\n    return FastAPI()\n' }, { app: 'main:get_app()' }],
  [
    'Django',
    { 'manage.py': '', 'site1/asgi.py': 'from django.core.asgi import get_asgi_application\napplication = get_asgi_application()\n' },
    { app: 'site1.asgi:application' },
  ],
  [
    'a job loop',
    { 'src/handler.py': 'import runpod\nrunpod.serverless.start({"handler": print})\n' },
    { command: ['python3', '-u', 'src/handler.py'] },
  ],
  [
    'Express',
    { 'package.json': '{}', 'src/server.js': "const express = require('express');\nexpress().listen(3000);\n" },
    { app: 'src/server.js' },
  ],
  ['Hono', { 'index.ts': "import { Hono } from 'hono';\nconst app = new Hono();\nexport default app;\n" }, { app: 'index.ts' }],
];

for (const [title, files, settings] of FOUND) {
  test(`${title} is offered, and what is written declares it`, async (t) => {
    const folder = await folderOf(t, files);
    const offer = await declareHere(folder);
    t.is(await readFile(join(folder, offer.file), 'utf8'), offer.text);
    const [endpoint] = (await discover(folder, none)).endpoints;
    t.like(endpoint?.settings, settings);
    await t.throwsAsync(declareHere(folder), { code: 'ALREADY_EXISTS' });
  });
}

test('a factory with many parameters is read at once, also where one is not understood', async (t) => {
  const parameters = Array.from({ length: 24 }, (_, n) => `setting_number_${n}: str = "x"`).join(',\n    ');
  const source = (last: string): string =>
    `from flask import Flask\ndef create_app(\n    ${parameters},\n    ${last},\n):\n    return Flask(__name__)\n`;
  t.regex((await offerFor(await folderOf(t, { 'a.py': source('last=None') })))?.text ?? '', /app="a:create_app\(\)"/);
  t.is(await offerFor(await folderOf(t, { 'a.py': source('last=load()') })), undefined);
});

test('the refusal of a folder without endpoints names what it has', async (t) => {
  const fastapi = await folderOf(t, { 'main.py': 'from fastapi import FastAPI\napp = FastAPI()\n' });
  await t.throwsAsync(readApplication(fastapi), { code: 'INVALID_MANIFEST', message: /; it has the FastAPI application app in main\.py$/ });
  await t.throwsAsync(readApplication(await folderOf(t, { Dockerfile: 'FROM x\n' })), { message: /; it has a Dockerfile$/ });
  await t.throwsAsync(readApplication(await folderOf(t, { 'a.py': '' })), { message: /no tool_manifest\.json$/ });
});

test('a comment, a package and a test of another name are no application', async (t) => {
  const others = {
    'a.py': '# app = FastAPI()\n',
    'c.py': 'from gui import App\nwindow = App()\n',
    'd.py': 'from flask import Flask\ndef create_app(config):\n    return Flask(config)\n',
    'node_modules/x/a.js': "require('express'); x.listen(1)",
    'b.js': "import { z } from 'zod';",
  };
  t.is(await offerFor(await folderOf(t, others)), undefined);
  await t.throwsAsync(declareHere(await folderOf(t, others)), { code: 'NOT_FOUND' });
});

test('declarations that are not at the top level are named with file, line and the statement around them', async (t) => {
  const folder = await folderOf(t, {
    'a.py': `import os
from capstan import Endpoint
if os.environ.get("A"):
    Endpoint(name="a", command=["x"])
try:
    one = Endpoint(name="b", command=["x"])
except ImportError:
    pass
def make(): return Endpoint(name="c", command=["x"])
class Held: own = Endpoint(name="d", command=["x"])
every = [Endpoint(name="e", command=["x"])]
ok = Endpoint(name="f", command=["x"])
handle = [Endpoint(id="1")]
`,
    'b.ts': `import { endpoint, Endpoint } from '@capstan/sdk';
if (process.env.A) endpoint({ name: 'g' }, () => 1);
export function make() { return endpoint({ name: 'h' }, () => 1); }
for (const name of ['i']) new Endpoint({ name: 'j' });
export default endpoint({ name: 'k' }, () => 1);
`,
  });
  const { endpoints, warnings } = await discover(folder, none);
  t.deepEqual(endpoints.map(({ name }) => name).sort(), ['f', 'k']);
  const rule = 'and is left out; declarations must be at the top level of their file';
  const within = { 'a.py:4': 'if', 'a.py:6': 'try', 'a.py:9': 'a function', 'a.py:10': 'a class', 'a.py:11': 'an expression' };
  const inNode = { 'b.ts:2': 'if', 'b.ts:3': 'a function', 'b.ts:4': 'for' };
  t.deepEqual(
    warnings,
    Object.entries({ ...within, ...inNode }).map(([place, what]) => `${place}: an endpoint is declared within ${what} ${rule}`),
  );
});

test('names of values from Flash are understood, from either package, and parameters without an effect are named', async (t) => {
  const declared = (from: string): string => `from capstan import Endpoint
from ${from} import CpuInstanceType, DataCenter, GpuGroup, GpuType, NetworkVolume, ServerlessScalerType
@Endpoint(name="a-${from}", gpu=[GpuType.NVIDIA_GEFORCE_RTX_4090, GpuType.NVIDIA_A100_80GB_PCIe, GpuGroup.ADA_24],
    scaler_type=ServerlessScalerType.REQUEST_COUNT, datacenter=[DataCenter.EU_RO_1], flashboot=True)
def a_${from}(): ...
@Endpoint(name="b-${from}", cpu=CpuInstanceType.CPU5C_2_4, volume=NetworkVolume(name="models", size=50))
def b_${from}(): ...
`;
  const folder = await folderOf(t, { 'a.py': declared('capstan'), 'b.py': declared('runpod_flash') });
  const { endpoints, warnings } = await discover(folder, none);
  for (const from of ['capstan', 'runpod_flash']) {
    const [gpu, cpu] = ['a', 'b'].map((name) => endpoints.find((each) => each.name === `${name}-${from}`)?.settings);
    t.like(gpu, { gpu: ['NVIDIA GeForce RTX 4090', 'NVIDIA A100 80GB PCIe', 'ADA_24'], scalerType: 'REQUEST_COUNT' });
    t.like(cpu, { cpu: 'cpu5c-2-4', volume: 'models' });
  }
  t.deepEqual(
    warnings,
    ['a.py', 'b.py'].map((file) => `${file}:3: datacenter, flashboot: no effect; hosts are where their operator has them`),
  );
  const unknown = await folderOf(t, { 'a.py': 'from capstan import Endpoint, GpuType\nEndpoint(name="a", gpu=GpuType.NO_SUCH)\n' });
  await t.throwsAsync(discover(unknown, none), { message: /a\.py:2: gpu must be a literal; `GpuType\.NO_SUCH` is not/ });
});

test('names of values from Flash are understood in TypeScript, too', async (t) => {
  const folder = await folderOf(t, {
    'a.ts': `import { CpuInstanceType as Cpu, Endpoint, endpoint, GpuGroup, GpuType, ServerlessScalerType } from '@capstan/sdk';
const card = GpuType.NVIDIA_A100_80GB_PCIe;
export const a = endpoint({ name: 'a', gpu: [GpuType.NVIDIA_GEFORCE_RTX_4090, card, GpuGroup.ADA_24], scalerType: ServerlessScalerType.REQUEST_COUNT }, () => 1);
export const b = new Endpoint({ name: 'b', cpu: Cpu.CPU5C_2_4 }).get('/', () => 1);
`,
    'c.js': `const sdk = require('@capstan/sdk');
exports.c = sdk.endpoint({ name: 'c', gpu: sdk.GpuType.NVIDIA_L4, minCuda: sdk.CudaVersion.V12_4 }, function c() {});
`,
  });
  const { endpoints } = await discover(folder, none);
  const settings = (name: string): object | undefined => endpoints.find((each) => each.name === name)?.settings;
  t.like(settings('a'), { gpu: ['NVIDIA GeForce RTX 4090', 'NVIDIA A100 80GB PCIe', 'ADA_24'], scalerType: 'REQUEST_COUNT' });
  t.like(settings('b'), { cpu: 'cpu5c-2-4' });
  t.like(settings('c'), { gpu: ['NVIDIA L4'], minCuda: '12.4' });
  for (const name of ['GpuType.NO_SUCH', 'GpuType.toString', 'GpuGroup.constructor']) {
    const unknown = await folderOf(t, {
      'a.ts': `import { endpoint, GpuGroup, GpuType } from '@capstan/sdk';\nendpoint({ name: 'a', gpu: ${name} }, () => 1);\n`,
    });
    await t.throwsAsync(discover(unknown, none), {
      message: new RegExp(`a\\.ts:2: gpu must be a literal; .${name.replace('.', '\\.')}. is not`),
    });
  }
});

test('both SDKs have the same names of values', async (t) => {
  const python = await readFile(new URL('../../sdk/python/capstan/former_names.py', import.meta.url), 'utf8');
  const classes = [...python.matchAll(/^class (\w+)\(_Text\):\n(.*?)(?=^class |$(?![\s\S]))/gms)].map(([, name = '', body = '']) => [
    name,
    Object.fromEntries([...body.matchAll(/^ {4}(\w+) = "(.*)"$/gm)].map(([, member = '', value = '']) => [member, value])),
  ]);
  t.deepEqual(Object.fromEntries(classes), { ...formerNames });
});
