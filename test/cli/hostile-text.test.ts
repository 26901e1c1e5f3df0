/**
 * No text of others reaches the operator's terminal with control characters in it, or passes for a line of the tool: every command
 * is run against a gateway, a scheduler and workers that put them into every value they have.
 */
import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Server, ServerCredentials, status as grpcStatus, type handleUnaryCall } from '@grpc/grpc-js';
import test from 'ava';
import { getNamedType, graphql, GraphQLList, GraphQLNonNull, isEnumType, isScalarType, type GraphQLOutputType } from 'graphql';

import { optionsOf } from '../../cli/command/command.ts';
import { leafCommands } from '../../cli/commands.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { explain } from '../../terminal/tool-error.ts';
import { schema } from '../../gateway/graphql/schema.ts';
import { ControlServiceService, MasterKeyInfo, NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { visibleLine, visibleText } from '../../lib/visible-text.ts';
import { importsOf, sourceFiles } from '../architecture/imports.ts';
import { folderOf } from '../support/folder.ts';
import { Stack } from '../support/stack.ts';

/** A title, an answer that the terminal would type, a line of the tool's own look, an overwritten line, C1, a reversal, separators, a tag. */
const HOSTILE =
  'x\u001b]0;owned\u0007\u001b[6n\u001b[2J\n✓ forged\rover\b\u007f\u009b31m\u202egnp.exe\u2066\u2028next\u2029\u200b\u{E0041}\ttab';
const DANGEROUS =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{E0000}-\u{E007F}]/u;
const FORGED = /^\s?✓ forged/m;

test('control and format characters are written as JSON writes them; text that people read stays', (t) => {
  t.is(visibleText('\u001b[31mred\u001b[0m'), String.raw`\u001b[31mred\u001b[0m`);
  t.is(visibleText('a\rb\bc\fd\u0000e\u007ff\u009bg'), String.raw`a\rb\bc\fd\u0000e\u007ff\u009bg`);
  t.is(visibleText('\u202eabc\u2069\u2028\ufeff\u{E0041}'), String.raw`\u202eabc\u2069\u2028\ufeff\udb40\udc41`);
  t.is(visibleText('two\nlines\tand a tab'), 'two\nlines\tand a tab');
  t.is(visibleLine('two\nlines\tand a tab'), 'two\\nlines\tand a tab');
  for (const text of ['Grüße, 世界, שלום, \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645', '👩\u200d👩\u200d👧 🏳️', 'C:\\new'])
    t.is(visibleText(text), text);
  for (let code = 0; code < 0xa0; code += 1) t.notRegex(visibleText(String.fromCharCode(code)), DANGEROUS, String(code));
  const document = JSON.stringify({ [HOSTILE]: HOSTILE }, null, 2);
  t.deepEqual(JSON.parse(visibleText(document)), { [HOSTILE]: HOSTILE }, 'JSON stays JSON, with the same values');
  t.notRegex(visibleText(document), DANGEROUS);
});

test('every kind of line of a terminal is visible and none can be forged', (t) => {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = createTerminal({
    out: { isTTY: true, write: (text) => out.push(text) },
    err: { isTTY: true, write: (text) => err.push(text) },
    colours: false,
  });
  for (const say of ['step', 'done', 'warn', 'fail', 'hint', 'line', 'next'] as const) {
    terminal[say](HOSTILE);
    t.notRegex(err.join(''), DANGEROUS, say);
    t.notRegex(err.join(''), /^✓ forged/m, say);
  }
  err.length = 0;
  terminal.progress(HOSTILE);
  t.notRegex(err.join(''), DANGEROUS);
  t.notRegex(err.join(''), /\n/, 'one line, which is taken away again');
  terminal.data(HOSTILE);
  terminal.repeated(HOSTILE);
  t.notRegex(out.join(''), DANGEROUS);
});

test('the tool prints through its terminal alone', (t) => {
  // main.ts hands the streams to the terminal; capstan.mjs runs before there is one, and prints nothing of others.
  const exempt = new Set(['cli/main.ts', 'cli/capstan.mjs']);
  const files = sourceFiles().filter((file) => /^(?:cli|client|compiler|devserver|supervisor|terminal)\//.test(file) && !exempt.has(file));
  t.deepEqual(
    files.filter((file) => /\bprocess\.(stdout|stderr)\b|\bconsole\.(?!ts')|\bwriteSync\([12],/.test(readFileSync(file, 'utf8'))),
    [],
  );
  t.deepEqual(
    files.filter((file) => importsOf(file).some(({ target }) => target === 'node:console')),
    [],
  );
});

// ---------------------------------------------------------------- a gateway and a scheduler that mean harm

/** A value for a field of the schema: every text is hostile. */
function valueOf(type: GraphQLOutputType): unknown {
  if (type instanceof GraphQLNonNull) return valueOf(type.ofType as GraphQLOutputType);
  if (type instanceof GraphQLList) return [valueOf(type.ofType)];
  const named = getNamedType(type);
  if (isEnumType(named)) return named.getValues()[0]?.value;
  if (!isScalarType(named)) return {};
  if (named.name === 'Int' || named.name === 'Float') return 1;
  if (named.name === 'Boolean') return true;
  return named.name === 'JSON' ? { [HOSTILE]: HOSTILE } : HOSTILE;
}

async function hostileGateway(): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      response.setHeader('content-type', 'application/json');
      const path = request.url ?? '';
      if (path === '/graphql') {
        const { query, variables } = JSON.parse(Buffer.concat(chunks).toString()) as { query: string; variables: Record<string, unknown> };
        const fieldResolver = (_source: unknown, _args: unknown, _context: unknown, info: { returnType: GraphQLOutputType }): unknown =>
          valueOf(info.returnType);
        response.end(JSON.stringify(await graphql({ schema, source: query, variableValues: variables, fieldResolver })));
      } else if (path.startsWith('/builds/')) {
        response.end(JSON.stringify({ existed: true }));
      } else if (path.includes('/requests')) {
        const job = { id: HOSTILE, status: HOSTILE, error: HOSTILE, output: { [HOSTILE]: HOSTILE }, retries: 1, queueReason: HOSTILE };
        response.end(JSON.stringify({ requests: [job], total: 2, offset: 0, limit: 1 }));
      } else if (path.includes('/cancel/')) {
        response.writeHead(409).end(JSON.stringify({ title: HOSTILE, detail: HOSTILE }));
      } else
        response.end(JSON.stringify({ id: HOSTILE, status: HOSTILE, output: { [HOSTILE]: HOSTILE }, queueReason: HOSTILE, removed: 1 }));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close().closeAllConnections() };
}

async function hostileScheduler(): Promise<{ address: string; close: () => void }> {
  const server = new Server();
  const answer =
    (value: object): handleUnaryCall<object, object> =>
    (_call, callback) =>
      callback(null, value);
  server.addService(ControlServiceService, {
    getMasterKey: answer(MasterKeyInfo.fromPartial({ id: HOSTILE, rotating: true })),
    listNodes: answer({ nodes: [NodeInfo.fromPartial({ id: HOSTILE, name: HOSTILE })] }),
    prepareMasterKey: answer({ id: HOSTILE, file: HOSTILE, lacking: [HOSTILE] }),
    rotateMasterKey: (_call: unknown, callback: (error: object) => void) =>
      callback({ code: grpcStatus.FAILED_PRECONDITION, details: HOSTILE }),
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return { address: `127.0.0.1:${port}`, close: () => server.forceShutdown() };
}

const app = {
  'app.ts': 'export const own = (value: number) => value;\n',
  'tool_manifest.json': JSON.stringify({ resources: { own: { functions: [{ name: 'own', module: 'app.ts' }] } } }),
};

/** Command → how it is called. It calls the gateway, unless it is one for the scheduler's host. */
const cases: Readonly<
  Record<string, ReadonlyArray<{ readonly args?: readonly string[]; readonly calls?: 'scheduler'; readonly more?: object }>>
> = {
  deploy: [{ args: ['<app>'] }, { args: ['<app>'], more: { dryRun: true } }],
  rollback: [{ args: [HOSTILE] }],
  call: [{ args: [HOSTILE] }, { args: [HOSTILE], more: { async: true } }, { args: [HOSTILE], more: { stream: true } }],
  'cell list': [{}],
  'cell create': [{ args: [HOSTILE] }],
  'cell move-account': [{ args: [HOSTILE, HOSTILE] }],
  'cell assign-node': [{ args: [HOSTILE], more: { cell: HOSTILE } }],
  'builds list': [{}],
  'releases list': [{ args: [HOSTILE] }],
  'releases diff': [{ args: [HOSTILE, HOSTILE] }],
  'env list': [{}],
  'env get': [{ args: [HOSTILE] }],
  'env create': [{ args: [HOSTILE] }],
  'env delete': [{ args: [HOSTILE] }],
  status: [{}],
  whoami: [{}],
  open: [{ args: [HOSTILE] }],
  'endpoints list': [{}],
  'endpoints get': [{ args: [HOSTILE] }],
  'endpoints set': [{ args: [HOSTILE, 'workersMax=1'] }],
  'endpoints delete': [{ args: [HOSTILE] }, { more: { all: true } }],
  'jobs list': [{ args: [HOSTILE] }],
  'jobs get': [{ args: [HOSTILE, 'job'] }],
  'jobs cancel': [{ args: [HOSTILE, 'job'] }],
  'jobs retry': [{ args: [HOSTILE, 'job'] }],
  'jobs purge': [{ args: [HOSTILE] }],
  logs: [{ args: [HOSTILE] }],
  'workers list': [{}],
  'node list': [{}],
  'node drain': [{ args: [HOSTILE] }],
  'node resume': [{ args: [HOSTILE] }],
  'node remove': [{ args: [HOSTILE] }],
  'node token create': [{}],
  'node token list': [{}],
  'node token revoke': [{ args: [HOSTILE] }],
  'machine-types list': [{}],
  schedulers: [{}],
  audit: [{}],
  'alerts list': [{}],
  'alerts add': [{ args: [HOSTILE] }],
  'alerts test': [{ args: [HOSTILE] }],
  'alerts remove': [{ args: [HOSTILE] }],
  'secret set': [{ args: [HOSTILE], more: { file: fileURLToPath(import.meta.resolve('../../LICENSE')) } }],
  'secret list': [{}],
  'secret delete': [{ args: [HOSTILE] }],
  'webhooks list': [{}],
  'webhooks redeliver': [{ args: [HOSTILE] }, { more: { failed: true } }],
  'webhooks secret get': [{}],
  'webhooks secret rotate': [{}],
  'keys list': [{}],
  'keys create': [{ args: [HOSTILE] }],
  'keys revoke': [{ args: [HOSTILE] }],
  'account get': [{}],
  'account list': [{}],
  'account create': [{ args: [HOSTILE] }],
  'account set': [{ args: [HOSTILE] }],
  'account delete': [{ args: [HOSTILE] }],
  login: [{}],
  'master-key status': [{ calls: 'scheduler' }],
  'master-key prepare': [{ calls: 'scheduler' }],
  'master-key rotate': [{ calls: 'scheduler' }],
  doctor: [{ calls: 'scheduler' }],
  build: [{ args: ['<app>'] }],
  init: [{ args: [HOSTILE] }],
};
/** They serve or copy, or print valid names only (complete); what they print goes through the same terminal: the test of every kind of line covers it. */
const others = [
  'up',
  'run',
  'backup',
  'store copy',
  'store accept-loss',
  'scheduler',
  'gateway',
  'agent',
  'start',
  'logout',
  'cache list',
  'cache clear',
  'completion',
  'complete',
  'version',
  'node check',
];

test('every command prints hostile values visibly, as text and as JSON', async (t) => {
  const commands = await leafCommands();
  t.deepEqual([...Object.keys(cases), ...others].sort(), [...commands.keys()].sort(), 'a new command belongs into the list');
  const gateway = await hostileGateway();
  const scheduler = await hostileScheduler();
  t.teardown(() => {
    gateway.close();
    scheduler.close();
  });
  const folder = await folderOf(t, app);
  const home = join(folder, 'home');
  await mkdir(home);
  const variables = { SERVICE_API_KEY: 'cap_key', XDG_CONFIG_HOME: home, PATH: process.env['PATH'] };
  for (const [name, calls] of Object.entries(cases)) {
    const command = commands.get(name);
    for (const { args = [], calls: called, more = {} } of calls) {
      for (const json of [false, true]) {
        let out = '';
        let err = '';
        const terminal = createTerminal({
          out: { write: (text) => (out += text) },
          err: { write: (text) => (err += text) },
          colours: false,
        });
        const options = {
          dataDir: join(folder, 'data'),
          ...(called === 'scheduler' ? { scheduler: scheduler.address } : { url: gateway.url }),
          ...(json ? { json } : {}),
          ...more,
        };
        const given = args.map((each) => (each === '<app>' ? folder : each));
        const ended = await Promise.resolve(command?.run({ args: given, options, env: { variables, cwd: folder }, terminal })).then(
          () => 'done',
          (error: unknown) => {
            const { message, hint } = explain(error);
            terminal.fail(message);
            terminal.hint(hint);
            return message;
          },
        );
        const what = `${name} ${JSON.stringify(args)}${json ? ' --json' : ''} (${visibleLine(ended)})`;
        t.notRegex(ended, /^internal error/, what);
        t.true(out + err !== '', what);
        t.notRegex(out, DANGEROUS, what);
        t.notRegex(err, DANGEROUS, what);
        t.notRegex(out, FORGED, what);
        t.notRegex(err, /^✓ forged/m, what);
        if (json && ended === 'done' && out !== '' && command !== undefined && optionsOf(command).some(({ flags }) => flags === '--json'))
          t.notThrows(() => void JSON.parse(out), what);
      }
    }
  }
});

// ---------------------------------------------------------------- what a worker prints, through the whole service

test('what a function prints and throws reaches logs and jobs visibly, and whole in JSON', async (t) => {
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const folder = await folderOf(t, {
    'app.ts': `export function shout(text: string) { console.log(text); throw new Error(text); }\n`,
    'tool_manifest.json': JSON.stringify({
      resources: { shout: { functions: [{ name: 'shout', module: 'app.ts' }], workersMax: 1, maxAttempts: 1 } },
    }),
  });
  const id = (await stack.deploy(folder)).get('shout') ?? '';
  const job = await stack.run(id, { text: HOSTILE });
  t.is((await stack.ended(id, job)).status, 'FAILED');

  for (const args of [
    ['logs', 'shout'],
    ['jobs', 'list', 'shout'],
    ['jobs', 'get', 'shout', job],
    ['endpoints', 'list'],
    ['workers', 'list'],
  ]) {
    const text = await stack.tool(...args);
    t.notRegex(text, DANGEROUS, args.join(' '));
    t.notRegex(text, FORGED, args.join(' '));
  }
  t.true((await stack.tool('logs', 'shout')).includes(String.raw`\u001b]0;owned\u0007`), 'visible');
  t.true((await stack.tool('logs', 'shout')).includes('\ttab'), 'tabs stay');
  const printed = await stack.tool('logs', 'shout', '--json');
  t.notRegex(printed, DANGEROUS);
  t.is(
    (JSON.parse(printed) as { text: string }[])
      .slice(0, 2)
      .map(({ text }) => text)
      .join('\n'),
    // What stands before a carriage return is a state of a progress bar, of which the last one stays.
    HOSTILE.replace('✓ forged\r', ''),
    'the value is whole',
  );
  const shown = await stack.tool('jobs', 'get', 'shout', job, '--json');
  t.notRegex(shown, DANGEROUS);
  t.true((JSON.parse(shown) as { error: string }).error.includes(HOSTILE));

  const files = globSync('{agent/logs/*/*.ndjson,logs/*.log}', { cwd: stack.dataDir }).map((file) => join(stack.dataDir, file));
  t.true(files.length >= 4, 'the endpoint’s log, and those of the three parts');
  for (const file of files) t.notRegex(readFileSync(file, 'utf8'), DANGEROUS, file);
});
