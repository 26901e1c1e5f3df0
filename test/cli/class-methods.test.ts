/** Classes that are endpoints: what a build stores of their methods, what `deploy` prints, and what `run` refuses. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { build } from '../../compiler/build/build.ts';
import type { EndpointRow } from '../../cli/api/endpoint-row.ts';
import type { Application } from '../../compiler/application/application.ts';
import { nextCommands } from '../../cli/deploy/report.ts';
import { documentOf } from '../../devserver/document.ts';
import { inputViolation } from '../../devserver/fit.ts';
import { routesOf } from '../../devserver/routes.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import type { DeclaredFunction } from '../../compiler/discovery/declared.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { folderOf } from '../support/folder.ts';

const quiet = createTerminal({ out: { write: () => true }, err: { write: () => true }, colours: false });

const TYPESCRIPT = `import { endpoint } from '@capstan/sdk';
interface Order { sku: string; count?: number }
class Shop {
  price(order: Order, currency: 'EUR' | 'USD') { return [order, currency]; }
  find(sku: string, limit = 10) { return [sku, limit]; }
}
export const shop = endpoint({ name: 'shop' }, Shop);
`;
const PYTHON = `from capstan import Endpoint

@Endpoint(name="images")
class Images:
    def brightness(self, png: bytes, scale: float = 1.0):
        return len(png) * scale
`;
const IMAGES = `import { endpoint } from '@capstan/sdk';
export const images = endpoint({ name: 'images' }, class { brightness(png: Uint8Array, scale = 1) { return png.length * scale; } });
`;

async function built(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<Application> {
  const folder = await folderOf(t, { ...files });
  const options = {
    lookUp: () => undefined,
    exclude: [],
    bundleBasePackages: false,
    keepStaging: false,
    refresh: false,
    python: undefined,
  };
  return (await build(folder, { ...options, cacheDir: join(folder, '.cache') }, quiet)).application;
}

function printed(application: Application): readonly string[] {
  const rows = application.endpoints.map(({ spec: { name } }) => ({ name, kind: 'queue', url: `http://host/v2/${name}`, routes: {} }));
  return nextCommands(application, rows as unknown as EndpointRow[], 'key');
}

test('deploy prints a call with the arguments of the first method, which it names where there are several', async (t) => {
  const shop = await built(t, { 'shop.ts': TYPESCRIPT });
  t.deepEqual(printed(shop), [
    `capstan call shop method=price 'order={"sku":"text"}' currency=EUR`,
    `curl -s http://host/v2/shop/runsync -H "Authorization: Bearer key" -H 'Content-Type: application/json' -d '{"input":{"method":"price","order":{"sku":"text"},"currency":"EUR"}}'`,
  ]);
  for (const files of [{ 'images.ts': IMAGES }, { 'images.py': PYTHON }])
    t.is(printed(await built(t, files))[0], 'capstan call images png=dGV4dA==');
});

test('a build stores the parameters of the methods for the worker; a worker of Python reads its own', async (t) => {
  const { endpoints } = await built(t, { 'shop.ts': TYPESCRIPT, 'images.py': PYTHON });
  const [images, shop] = ['images', 'shop'].map((name) => endpoints.find(({ spec }) => spec.name === name)?.spec.functions[0]);
  t.is(images?.classSpec, undefined);
  t.deepEqual(
    shop?.classSpec?.methods.map(({ name, callStyle, parameters }) => [name, callStyle, parameters.map((each) => each.name)]),
    [
      ['price', 'CALL_STYLE_POSITIONAL', ['order', 'currency']],
      ['find', 'CALL_STYLE_POSITIONAL', ['sku', 'limit']],
    ],
  );
});

async function declared(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<DeclaredFunction> {
  const { endpoints } = await discover(await folderOf(t, { ...files }), () => undefined);
  const fn = endpoints[0]?.functions[0];
  if (fn === undefined) throw new Error('nothing is declared');
  return fn;
}

test('run refuses keys that the chosen method does not take, and leaves other methods to the worker', async (t) => {
  const shop = await declared(t, { 'shop.ts': TYPESCRIPT });
  t.is(inputViolation(shop, { method: 'find', sku: 'x' }), null);
  t.is(inputViolation(shop, { method: 'find' }), 'missing argument: sku');
  t.is(inputViolation(shop, { method: 'find', sku: 'x', name: 1 }), 'unknown argument: name (the function takes sku, limit)');
  t.is(inputViolation(shop, { method: 'find', sku: 1 }), 'sku: must be a string');
  t.is(inputViolation(shop, { method: 'inherited', sku: 1 }), null);
  t.is(inputViolation(shop, { sku: 1 }), null);
  for (const files of [{ 'images.ts': IMAGES }, { 'images.py': PYTHON }]) {
    const images = await declared(t, files);
    t.is(inputViolation(images, { png: 'dGV4dA==' }), null);
    t.is(inputViolation(images, {}), 'missing argument: png');
    t.is(inputViolation(images, { method: 'brightness', scale: 1 }), 'missing argument: png');
    t.is(inputViolation(images, { method: 'inherited', x: 1 }), null);
  }
});

test('the document of run has the schema of each method', async (t) => {
  const { endpoints } = await discover(await folderOf(t, { 'shop.ts': TYPESCRIPT, 'images.py': PYTHON }), () => undefined);
  const { paths } = documentOf(routesOf(endpoints)) as { paths: Record<string, { post: { requestBody: { content: object } } }> };
  const schemaOf = (path: string): unknown => {
    const { content } = paths[path]?.post.requestBody ?? {};
    return (content as Record<string, { schema: { properties: { input: unknown } } }>)['application/json']?.schema.properties.input;
  };
  t.like(schemaOf('/images/runsync'), { properties: { scale: { type: 'number' } }, required: ['png'] });
  const selected = (name: string): object => ({ type: 'object', properties: { method: { enum: [name] } }, required: ['method'] });
  const { oneOf } = schemaOf('/shop/runsync') as { oneOf: { title: string; allOf: object[] }[] };
  t.deepEqual(
    oneOf.map(({ title, allOf }) => [title, allOf[0]]),
    [
      ['price', selected('price')],
      ['find', selected('find')],
    ],
  );
  t.like(oneOf[0]?.allOf[1], {
    properties: { order: { $ref: '#/components/schemas/Order' }, currency: { enum: ['EUR', 'USD'] } },
    required: ['order', 'currency'],
  });
});
