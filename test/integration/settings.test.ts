/** The settings of an endpoint: one definition, the same words wherever a value is refused, rows of earlier versions. */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { readChanges } from '../../cli/api/endpoint-changes.ts';
import { GET_ENDPOINT, type GetEndpointResult } from '../../client/graphql/gen/operations.ts';
import { otherSettings, shownSettings } from '../../cli/api/shown-settings.ts';
import { readManifest } from '../../compiler/artifact/manifest.ts';
import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import {
  fieldOf,
  PLAIN_NAMES,
  READABLE_NAMES,
  settingOf,
  UPDATABLE_NAMES,
  UPDATABLE_PLAIN_NAMES,
  type PlainName,
} from '../../lib/endpoint-settings.ts';
import { ruleViolation } from '../../lib/setting-rules.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { EndpointPatch, type EndpointInfo } from '../../proto/gen/capstan/v1/control.ts';
import { Declaration } from '../../sdk/typescript/sdk.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

interface Setup {
  readonly scheduler: TestScheduler;
  readonly url: string;
  /** The data of a query; throws its first error. */
  readonly query: <Data>(query: string, variables?: object) => Promise<Data>;
}

async function setup(t: ExecutionContext): Promise<Setup> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const token = scheduler.secret('gateway-token');
  const gateway = await start(readConfig({ port: 0, scheduler: scheduler.handle.address, token, logLevel: 'silent', closeGraceMs: 0 }, {}));
  t.teardown(() => gateway.close());
  const key = scheduler.secret('api-key');
  // Answered 503 until the directory was read.
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers: { authorization: key } })).status === 503);
  return {
    scheduler,
    url: gateway.url,
    async query<Data>(query: string, variables: object = {}): Promise<Data> {
      const response = await fetch(`${gateway.url}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify({ query, variables }),
      });
      const { data, errors = [] } = (await response.json()) as { data?: Data; errors?: { message: string }[] };
      if (errors[0] !== undefined) throw new Error(errors[0].message);
      return data as Data;
    },
  };
}

/** A value of the right type that the rule refuses, and the words that refuse it. */
function broken(name: PlainName): { readonly value: unknown; readonly path: string; readonly words: string } | null {
  const { rule } = settingOf(name);
  const values: Readonly<Record<typeof rule.type, unknown>> = {
    integer: 'max' in rule ? rule.max + 1 : 0,
    text: 'maxLength' in rule ? `a\u202e${name}` : ' ',
    cpu: 'cpu3c-0-1',
    choice: 'neither',
    flag: undefined,
    list: [''],
    rateLimits: undefined,
    environment: undefined,
  };
  const value = values[rule.type];
  const violation = value === undefined ? null : ruleViolation(rule, value);
  return violation === null ? null : { value, path: violation.path, words: violation.rule };
}

async function refusalOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'accepted';
}

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 8))']).status === 0;
const inSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

async function pythonRefusal(parameter: string, value: unknown): Promise<string> {
  const script =
    'import capstan, json, sys\ntry:\n  capstan.Endpoint(name="e", **json.loads(sys.argv[1]))\nexcept capstan.DeclarationError as error:\n  print(error, end="")';
  const options = {
    cwd: join(import.meta.dirname, '../../sdk/python'),
    env: { PATH: process.env['PATH'] ?? '', PYTHONIOENCODING: 'utf-8' },
  };
  return (await promisify(execFile)('python3', ['-B', '-c', script, JSON.stringify({ [parameter]: value })], options)).stdout;
}

test('a value against its rule is refused in the same words by every part that reads it', async (t) => {
  const { scheduler, query } = await setup(t);
  await scheduler.deploy([{ name: 'e' }]);
  const deploy = 'mutation ($endpoints: [EndpointSpec!]!) { deploy(build: "b", endpoints: $endpoints) { environment } }';
  let checked = 0;
  for (const name of PLAIN_NAMES) {
    const found = broken(name);
    if (found === null) continue;
    checked += 1;
    const { value, path, words } = found;
    const manifest = JSON.stringify({ resources: { e: { functions: [{ name: 'f', module: 'f.ts' }], [name]: value } } });
    t.is(await refusalOf(() => readManifest(manifest, 'm')), `m: resources.e.${name}${path}: ${words}`);
    t.is(await refusalOf(() => scheduler.deploy([{ name: 'e', [fieldOf(name)]: value }])), `e.${name}${path}: ${words}`);
    // GraphQL repeats the value behind the words.
    const form = await refusalOf(() => query(deploy, { endpoints: [{ name: 'e', [name]: value }] }));
    t.true(form.includes(`"endpoints.${fieldOf(name)}${path}: ${words}"`), form);
    if (UPDATABLE_PLAIN_NAMES.some((each) => each === name)) {
      const update = 'mutation ($settings: EndpointSettings!) { updateEndpoint(endpoint: "e", settings: $settings) { id } }';
      t.is(await refusalOf(() => query(update, { settings: { [name]: value } })), `${name}${path}: ${words}`);
      t.is(await refusalOf(() => readChanges([`${name}=${String(value)}`])), `${name}${path}: ${words}`);
      const patch: EndpointPatch = { ...EndpointPatch.create(), [fieldOf(name)]: value };
      const metadata = scheduler.bearer(scheduler.secret('api-key'));
      const call = unary<EndpointInfo>((done) => scheduler.control.updateEndpoint({ endpointId: 'e', patch }, metadata, done));
      t.is(await refusalOf(() => call), `e.${name}${path}: ${words}`);
    }
    const { declared } = settingOf(name);
    if (declared === undefined) continue;
    const parameter = declared.name ?? name;
    const message = `endpoint e: ${parameter}${path} ${words}`;
    t.is(await refusalOf(() => new Declaration({ name: 'e', [parameter]: value })), message);
    if (python) t.is(await pythonRefusal(inSnakeCase(parameter), value), message.replace(parameter, inSnakeCase(parameter)));
  }
  t.true(checked > 15, `only ${checked} settings were checked`);
  if (!python) t.log('the Python SDK was not asked: there is no Python 3.8 or newer');
});

test('GraphQL has a field for each setting that can be read, and for each that can be changed', async (t) => {
  const { query } = await setup(t);
  const names = async (type: string, fields: 'fields' | 'inputFields'): Promise<string[]> => {
    const found = await query<{ __type: Record<string, { name: string; description: string }[]> }>(
      `{ __type(name: "${type}") { ${fields} { name description } } }`,
    );
    const listed = found.__type[fields] ?? [];
    t.true(listed.every(({ description }) => description !== ''));
    return listed.map(({ name }) => name);
  };
  t.deepEqual(await names('Settings', 'fields'), [...READABLE_NAMES]);
  t.deepEqual(await names('EndpointSettings', 'inputFields'), [...UPDATABLE_NAMES, 'unsetEnv']);
});

const SHOWN = 'id release settings { description workersMax }';
type Shown = { readonly id: string; readonly release: string; readonly settings: { readonly description: string } };

test('a description is deployed, shown, changed without new workers, and is on the endpoint’s page', async (t) => {
  const { scheduler, url, query } = await setup(t);
  const functions = [{ name: 'f', module: 'f.ts', parameters: [], callStyle: 'CALL_STYLE_WHOLE' as const }];
  const web = { kind: EndpointKind.LOAD_BALANCED, functions, routes: { 'GET /f': 'f' } };
  const described = 'Says <b>hello</b> to [everybody](https://a.example) 👋🏽';
  const [made] = (await scheduler.deploy([{ name: 'web', description: described, ...web }])).endpoints;
  const id = made?.id ?? '';
  t.is(made?.spec?.description, described);
  const printed = await query<GetEndpointResult>(GET_ENDPOINT, { id });
  t.like(Object.fromEntries(printed.endpoint === null ? [] : otherSettings(shownSettings(printed.endpoint.settings), [])), {
    description: described,
  });
  const { endpoint } = await query<{ endpoint: Shown }>(`query ($id: ID!) { endpoint(id: $id) { ${SHOWN} } }`, { id });
  t.is(endpoint.settings.description, described);

  const page = async (): Promise<string> => {
    const response = await fetch(`${url}/lb/${id}/openapi.json`, { headers: { authorization: `Bearer ${scheduler.secret('api-key')}` } });
    return ((await response.json()) as { info?: { description?: string } }).info?.description ?? '';
  };
  const escaped = String.raw`Says \<b\>hello\</b\> to \[everybody\](https://a.example) 👋🏽`;
  while ((await page()) === '');
  t.is(await page(), `${escaped}\n\nThe routes of the load-balanced endpoint ${id}.`);

  const update = `mutation ($id: ID!, $settings: EndpointSettings!) { updateEndpoint(endpoint: $id, settings: $settings) { ${SHOWN} } }`;
  const change = async (settings: object): Promise<Shown> =>
    (await query<{ updateEndpoint: Shown }>(update, { id, settings })).updateEndpoint;
  t.like(await change(readChanges(['description=Greets = waves'])), {
    release: made?.releaseId ?? '',
    settings: { description: 'Greets = waves' },
  });
  t.like(await change({ workersMax: 2 }), { settings: { description: 'Greets = waves' } });
  await scheduler.restart();
  t.like((await query<{ endpoint: Shown }>(`query ($id: ID!) { endpoint(id: $id) { ${SHOWN} } }`, { id })).endpoint.settings, {
    description: 'Greets = waves',
  });
  t.like(await change(readChanges(['description='])), { settings: { description: '' } });
});

test('rows from before a setting was there have its default: nothing is replaced, and a rollback works', async (t) => {
  const { scheduler } = await setup(t);
  const spec = { name: 'echo', maxConcurrency: 2 };
  const [first] = (await scheduler.deploy([spec])).endpoints;
  await scheduler.deploy([spec], { bytes: Buffer.from('another build') });
  await scheduler.handle.close();
  const file = join(scheduler.dataDir, 'scheduler', 'capstan.db');
  const db = new Database(file);
  const rows = db.prepare('SELECT kind, key, value FROM control').all() as { kind: string; key: string; value: string }[];
  let stripped = 0;
  for (const { kind, key, value } of rows) {
    // As rows looked before releases and settings had these fields.
    const old = value.replaceAll(/"(description|isPublic|requestsPerWorker|maxAttempts|command|packages|python)":("[^"]*"|\[\]|\w+),/g, '');
    if (old === value) continue;
    stripped += 1;
    db.prepare('UPDATE control SET value = ? WHERE kind = ? AND key = ?').run(JSON.stringify(JSON.parse(old)), kind, key);
  }
  db.close();
  t.true(stripped >= 4, `only ${stripped} rows had such fields`);
  await scheduler.restart();

  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  const list = async (): Promise<EndpointInfo | undefined> =>
    (await unary<{ endpoints: EndpointInfo[] }>((done) => scheduler.control.listEndpoints({ environment: '' }, metadata, done)))
      .endpoints[0];
  const restored = await list();
  t.like(restored?.spec, { description: '', isPublic: false, maxAttempts: 2, command: [], packages: [], python: '', maxConcurrency: 2 });
  const [again] = (await scheduler.deploy([spec], { bytes: Buffer.from('another build') })).endpoints;
  t.is(again?.releaseId, restored?.releaseId, 'a default is no change that workers depend on');
  const request = { environment: '', endpoint: '', build: first?.buildDigest ?? '' };
  const [back] = (await unary<{ endpoints: EndpointInfo[] }>((done) => scheduler.control.rollback(request, metadata, done))).endpoints;
  t.like(back?.spec, { description: '', maxConcurrency: 2 });
  t.is(back?.buildDigest, createHash('sha256').update('not really an archive').digest('hex'));
});

test('printable text holds what a terminal shows as it is, in one line', (t) => {
  const rule = { type: 'text', mayBeEmpty: true, printable: true } as const;
  for (let code = 0; code <= 0x10_ffff; code += 1) {
    const character = String.fromCodePoint(code);
    const isSurrogate = code >= 0xd800 && code <= 0xdfff;
    const isShown = !isSurrogate && code !== 9 && visibleLine(character) === character;
    if ((ruleViolation(rule, character) === null) !== isShown) t.fail(`U+${code.toString(16)}`);
  }
  t.is(ruleViolation(rule, 'a👩🏽‍🚀é\u00a0') ?? undefined, undefined);
});
