/** An agent on a second host, set up by the commands of the docs: load-balanced requests reach it, and what it does not reach is named. */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { isRunnable } from '../release/host.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { TwoHosts } from './two-hosts.ts';

/** Projects whose functions call endpoints of their own project. */
const APPS = ['second-host-app', 'second-host-python'] as const;
const canRun =
  (await isRunnable('unshare', ['--net', 'true'])) && (await isRunnable('iptables', ['-V'])) && (await isRunnable('openssl', ['version']));
const withHosts = canRun ? test : test.skip;
if (!canRun) test('two hosts', (t) => t.pass('skipped: needs root, iproute2, iptables and openssl'));

interface Row {
  readonly name: string;
  readonly unreachableGateways: readonly { readonly dialed: string; readonly reason: string }[];
}

withHosts(
  'the pages’ own commands: requests and calls work across hosts, and a gateway that the agent does not reach is named',
  async (t) => {
    t.timeout(300_000);
    const folder = await folderOf(t);
    const hosts = new TwoHosts(folder);
    t.teardown(() => hosts.close());
    hosts.start('scheduler');
    await hosts.copySecrets();
    hosts.start('gateway');
    hosts.start('agent');
    const key = hosts.apiKey;
    const base = `http://${hosts.address('queue')}:8080`;
    const variables = { SERVICE_API_KEY: key, CAPSTAN_URL: base };
    const nodes = async (): Promise<Row[]> => {
      const { code, text } = await hosts.tool('gpu', ['node', 'list', '--json'], variables);
      return code === 0 ? (JSON.parse(text) as Row[]) : [];
    };
    await until('the agent has joined', async () => (await nodes()).length === 1).catch((error: unknown) => {
      throw new Error(`${hosts.log('scheduler')}\n${hosts.log('gateway')}\n${hosts.log('agent')}`, { cause: error });
    });
    const ids = new Map<string, string>();
    for (const app of APPS) {
      const copy = join(folder, app);
      await cp(join(import.meta.dirname, app), copy, { recursive: true });
      const deployed = await hosts.tool('gpu', ['deploy', copy, '--env', app, '--json'], variables);
      t.is(deployed.code, 0, deployed.text);
      const rows = JSON.parse(/\[[^]*\]/.exec(deployed.text)?.[0] ?? '[]') as { id: string; name: string }[];
      for (const { name, id } of rows) ids.set(name, id);
    }
    const url = `${base}/lb/${ids.get('web') ?? ''}/where`;
    const first = await hosts.get('gpu', url, key);
    t.is(first.status, 200, `${first.text}\n${hosts.log('agent')}`);
    t.deepEqual(JSON.parse(first.text), { url: base, ping: 200, twice: { n: 42 } });
    const called = await hosts.tool('gpu', ['call', ids.get('calls') ?? '', 'n=5'], variables);
    t.is(called.code, 0, called.text);
    t.regex(called.text, /"n": ?15\b/);
    t.deepEqual((await nodes())[0]?.unreachableGateways, []);

    const ofPage = { ...hosts.settingsOf('gateway'), CAPSTAN_DATA_DIR: hosts.dataDir('scheduler') };
    const here = await hosts.tool('queue', ['doctor'], ofPage);
    t.is(here.code, 0, here.text);
    t.regex(here.text, /HTTP port: 8080 is used by a gateway of Capstan/);
    t.regex(here.text, /scheduler port: 7070 is used by a scheduler of Capstan/);
    t.regex(here.text, /scheduler: \S+:7070 responds; 1 of 1 node connected/);
    t.regex(here.text, /gateway: http:\/\/127\.0\.0\.1:8080 responds/);
    const there = await hosts.tool('gpu', ['doctor'], variables);
    t.is(there.code, 0, there.text);
    t.regex(there.text, new RegExp(`gateway: ${base} responds`));
    t.regex(there.text, /service: 1 of 1 node connected/);
    t.is((await hosts.tool('gpu', ['doctor'])).code, 0);

    const [, port = ''] = /"invokeAddress":"[^"]*:(\d+)"/.exec(hosts.log('gateway')) ?? [];
    hosts.reject(port, true);
    const [lost] = await until('the node names the gateway', async () => {
      const [node] = await nodes();
      return (node?.unreachableGateways.length ?? 0) > 0 ? [node] : null;
    });
    t.is(lost?.unreachableGateways[0]?.dialed, `${hosts.address('queue')}:${port}`);
    // The gateway notices by its keepalives that the connection which it had is gone.
    const refused = await until('the gateway refuses', async () => {
      const answer = await hosts.get('queue', url, key);
      return answer.status === 503 ? answer : null;
    });
    t.regex(refused.text, new RegExp(`run on ${lost?.name ?? '-'}, whose agent does not reach this gateway`));
    t.regex(refused.head, /^retry-after: 10\r?$/m);
    const list = await hosts.tool('gpu', ['node', 'list'], variables);
    t.regex(list.text, /connected,no gateway/);
    const attention = await hosts.graphql('queue', base, '{ attention { items { kind message } } }', key);
    t.regex(attention, /"GATEWAY_UNREACHABLE","message":"\S+ does not reach the gateway at [^"]*/);
    for (const [host, settings] of [
      ['queue', ofPage],
      ['gpu', variables],
    ] as const)
      t.regex((await hosts.tool(host, ['doctor'], settings)).text, /✗ agent of \S+: does not reach the gateway at/);

    hosts.reject(port, false);
    await until('the gateway is reached again', async () => (await nodes())[0]?.unreachableGateways.length === 0);
    t.is((await hosts.get('gpu', url, key)).status, 200);

    // A gateway that listens on loopback is of no use to another host: the agent is told no address at all.
    await hosts.end('gateway');
    hosts.start('gateway', { CAPSTAN_HTTP_HOST: '127.0.0.1' });
    const local = 'http://127.0.0.1:8080';
    const unknown = await until('the node that knows no gateway is an incident', async () => {
      const text = await hosts.graphql('queue', local, '{ attention { items { kind message } } }', key);
      return text.includes('"GATEWAY_UNKNOWN"') ? text : null;
    });
    t.regex(unknown, /"GATEWAY_UNKNOWN","message":"\S+ knows no address of a gateway: functions there cannot call other endpoints/);
    await hosts.end('gateway');
    hosts.start('gateway');
    await until('the incident ends', async () => {
      const text = await hosts.graphql('queue', base, '{ attention { items { kind } } }', key);
      return text.includes('"items":[]');
    });
    t.is((await hosts.tool('gpu', ['call', ids.get('calls') ?? '', 'n=6'], variables)).code, 0);
  },
);
