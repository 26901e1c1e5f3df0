/** Where the tool's settings come from, and which wins. */
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

import test from 'ava';

import { installRoot, keySource, readSettings } from '../../terminal/config.ts';
import { gatewayOf } from '../../client/gateway.ts';
import { checkKeyTarget, checkTokenTarget } from '../../client/key-target.ts';
import { apiKey, apiKeyForShell, httpBase, quote, schedulerAddress } from '../../client/local.ts';
import { writeLogin } from '../../client/login-file.ts';
import { writeRunFile } from '../../supervisor/run-file.ts';
import { CapstanError } from '../../lib/errors.ts';
import { buildOptions } from '../../cli/command/build-options.ts';
import { folderOf } from '../support/folder.ts';

test('flags win over the shell, the shell over .env, that over the defaults', async (t) => {
  const cwd = await folderOf(t);
  await writeFile(join(cwd, '.env'), 'SERVICE_API_KEY="from file"\nCAPSTAN_HTTP_PORT=1111\n# CAPSTAN_GRPC_PORT=2222\n');
  const none = { variables: {}, cwd };
  const shell = { variables: { CAPSTAN_HTTP_PORT: '3333', SERVICE_API_KEY: 'from shell' }, cwd };
  t.like(readSettings({}, none), { apiKey: 'from file', httpPort: 1111 });
  t.like(readSettings({}, shell), { apiKey: 'from shell', httpPort: 3333 });
  t.is(readSettings({ httpPort: '4444' }, shell).httpPort, 4444);
  t.is(readSettings({}, shell).grpcPort, undefined);
});

test('an empty variable is none', async (t) => {
  const cwd = await folderOf(t);
  await writeFile(join(cwd, '.env'), 'SERVICE_API_KEY=from-file\n');
  t.is(readSettings({}, { variables: { SERVICE_API_KEY: '', CAPSTAN_HTTP_PORT: '' }, cwd }).apiKey, 'from-file');
});

test('a checkout keeps its data to itself; a path is taken from the working folder', async (t) => {
  const cwd = await folderOf(t);
  const { dataDir } = readSettings({}, { variables: {}, cwd });
  t.is(dataDir, installRoot.includes('node_modules') ? join(homedir(), '.capstan') : join(installRoot, '.capstan'));
  t.is(readSettings({ dataDir: 'data' }, { variables: {}, cwd }).dataDir, join(cwd, 'data'));
});

test('a wrong value is never repeated: it may be a secret in the wrong place', async (t) => {
  const cwd = await folderOf(t);
  const error = t.throws(() => readSettings({}, { variables: { CAPSTAN_GRPC_PORT: 's3cret' }, cwd }), { instanceOf: CapstanError });
  t.is(error.code, 'CONFIG');
  t.is(error.field, 'CAPSTAN_GRPC_PORT');
  t.false(error.message.includes('s3cret'));
});

test('commands find the stack that runs on the data folder, unless told otherwise', async (t) => {
  const cwd = await folderOf(t);
  const settings = (options: Record<string, string> = {}) => readSettings({ dataDir: cwd, ...options }, { variables: {}, cwd });
  t.is(schedulerAddress(settings()), '127.0.0.1:7070');
  t.is(httpBase(settings()), 'http://127.0.0.1:8080');
  writeRunFile(cwd, { pid: process.pid, http: '127.0.0.1:18080', grpc: '127.0.0.1:17070' });
  t.is(schedulerAddress(settings()), '127.0.0.1:17070');
  t.is(httpBase(settings()), 'http://127.0.0.1:18080');
  t.is(schedulerAddress(settings({ grpcPort: '5' })), '127.0.0.1:5');
  t.is(schedulerAddress(settings({ scheduler: 'unix:/run/s' })), 'unix:/run/s');
  t.is(httpBase(settings({ httpPort: '6' })), 'http://127.0.0.1:6');
  t.is(httpBase(settings({ httpPort: '0' })), 'http://127.0.0.1:18080');
});

test('what a dead stack left is not believed', async (t) => {
  const cwd = await folderOf(t);
  writeRunFile(cwd, { pid: 2 ** 22 + 1, http: '127.0.0.1:18080', grpc: '127.0.0.1:17070' });
  t.is(schedulerAddress(readSettings({ dataDir: cwd }, { variables: {}, cwd })), '127.0.0.1:7070');
});

test('the key: the setting, else the one in the data folder', async (t) => {
  const cwd = await folderOf(t);
  const { mkdir } = await import('node:fs/promises');
  const none = readSettings({ dataDir: cwd }, { variables: {}, cwd });
  t.is(t.throws(() => apiKey(none), { instanceOf: CapstanError }).code, 'CONFIG');
  await mkdir(join(cwd, 'secrets'));
  await writeFile(join(cwd, 'secrets/api-key'), 'stored\n');
  t.is(apiKey(none), 'stored');
  t.is(apiKey(readSettings({ dataDir: cwd }, { variables: { SERVICE_API_KEY: 'given' }, cwd })), 'given');
});

test('values of env come from the shell and .env of the project, not of another working folder', async (t) => {
  const project = await folderOf(t, { '.env': 'MODEL=project\n' });
  const cwd = await folderOf(t, { '.env': 'MODEL=elsewhere\nTOKEN=elsewhere\n' });
  const lookUp = (variables: Record<string, string>) => buildOptions({}, { variables, cwd }, project).lookUp;
  t.is(lookUp({})('MODEL'), 'project');
  t.is(lookUp({})('TOKEN'), undefined);
  t.is(lookUp({ MODEL: 'shell' })('MODEL'), 'shell');
});

test('.env of the project gives the key, after the shell and the working folder, and nothing else', async (t) => {
  const project = await folderOf(t, { '.env': 'SERVICE_API_KEY=project\nCAPSTAN_URL=http://elsewhere.example\n' });
  const empty = await folderOf(t, { '.env': 'SERVICE_API_KEY=\n' });
  const own = await folderOf(t, { '.env': 'SERVICE_API_KEY="own"\n' });
  const read = (cwd: string, variables: Record<string, string> = {}) => {
    const settings = readSettings({}, { variables, cwd }, project);
    t.is(settings.url, undefined, 'a project does not decide where its key is sent');
    return [settings.apiKey, keySource({ variables, cwd }, project)];
  };
  t.deepEqual(read(empty), ['project', { kind: 'file', path: join(project, '.env') }]);
  t.deepEqual(read(own), ['own', { kind: 'file', path: join(own, '.env') }]);
  t.deepEqual(read(own, { SERVICE_API_KEY: 'shell' }), ['shell', { kind: 'shell' }]);
  t.is(readSettings({}, { variables: {}, cwd: empty }).apiKey, undefined);
  t.is(keySource({ variables: {}, cwd: empty }), undefined);
});

test('a printed command never shows the key', async (t) => {
  const cwd = await folderOf(t);
  const settings = readSettings({ dataDir: join(cwd, "it's here") }, { variables: { SERVICE_API_KEY: 'given' }, cwd });
  t.is(apiKeyForShell(settings, { kind: 'shell' }), '$SERVICE_API_KEY');
  t.is(apiKeyForShell(settings, undefined), `$(cat '${cwd}/it'\\''s here/secrets/api-key')`);
  t.is(apiKeyForShell(settings, { kind: 'file', path: '/a b/.env' }), `$(sed -n 's/^SERVICE_API_KEY=//p' '/a b/.env' | tr -d '"')`);
  t.is(quote('plain-word/x.y:1'), 'plain-word/x.y:1');
});

test('an address of .env receives no key that is not stored with it', async (t) => {
  const cwd = await folderOf(t, { '.env': 'CAPSTAN_URL=http://elsewhere.example\nCAPSTAN_SCHEDULER=elsewhere.example:7070\n' });
  const home = { HOME: cwd, CAPSTAN_DATA_DIR: join(cwd, 'data') };
  const select = (variables: Record<string, string>, options: Record<string, string> = {}) => {
    const environment = { variables: { ...home, ...variables }, cwd };
    return gatewayOf(readSettings(options, environment), environment);
  };
  const shell = { SERVICE_API_KEY: 's3cret' };
  const refused = t.throws(() => select(shell), { instanceOf: CapstanError });
  t.like(refused, { code: 'CONFIG', field: 'CAPSTAN_URL' });
  t.true(refused.message.includes(join(cwd, '.env')));
  t.false(refused.message.includes('s3cret'));
  t.deepEqual(select({ ...shell, CAPSTAN_URL: 'https://mine.example' }), { url: 'https://mine.example', key: 's3cret' });
  t.deepEqual(select(shell, { url: 'https://mine.example' }), { url: 'https://mine.example', key: 's3cret' });

  // The key in the data folder and the gateway token stay, too.
  const stored = readSettings({}, { variables: { ...home }, cwd });
  t.throws(() => checkKeyTarget(stored, 'scheduler'), { code: 'CONFIG' });
  t.throws(() => checkTokenTarget(stored), { code: 'CONFIG' });

  writeLogin({ variables: home, cwd }, { url: 'http://elsewhere.example', key: 'logged-in' });
  t.is(select({}).key, 'logged-in', 'capstan login named this address itself');

  await writeFile(join(cwd, '.env'), 'CAPSTAN_URL=http://elsewhere.example\nSERVICE_API_KEY=theirs\n');
  t.deepEqual(select({}), { url: 'http://elsewhere.example', key: 'theirs' });
});

test('a data folder of .env receives no key of the shell for the stack that it names', async (t) => {
  const cwd = await folderOf(t, { '.env': 'CAPSTAN_DATA_DIR=theirs\n' });
  const theirs = await folderOf(t, { 'secrets/api-key': 'stored\n' });
  await writeFile(join(cwd, '.env'), `CAPSTAN_DATA_DIR=${theirs}\n`);
  writeRunFile(theirs, { pid: process.pid, http: '127.0.0.1:18080', grpc: '127.0.0.1:17070', url: 'http://elsewhere.example' });
  const select = (variables: Record<string, string>) => {
    const environment = { variables: { HOME: cwd, ...variables }, cwd };
    return gatewayOf(readSettings({}, environment), environment);
  };
  t.like(
    t.throws(() => select({ SERVICE_API_KEY: 's3cret' })),
    { code: 'CONFIG', field: 'CAPSTAN_DATA_DIR' },
  );
  t.deepEqual(select({}), { url: 'http://elsewhere.example', key: 'stored' });
});
