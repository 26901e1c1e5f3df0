/** Where a gateway listens for agents and says that it is reached, without settings for it. */
import { networkInterfaces } from 'node:os';

import test from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { announcedAddress, httpUrlOf, ownHosts } from '../../gateway/invoke/own-address.ts';
import { hostOfScheduler } from '../../lib/owner/addresses.ts';
import { withHost } from '../../lib/unspecified-host.ts';

const hostsOf = (settings: Record<string, unknown>) => ownHosts(readConfig(settings, {}));
const outside = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === 'IPv4' && !each.internal)?.address;

test('with a scheduler on this host alone, it stays on loopback', async (t) => {
  for (const scheduler of ['127.0.0.1:7070', 'localhost:7070', 'unix:/run/capstan.sock', '127.0.0.1:7070,127.0.0.1:7071'])
    t.deepEqual(await hostsOf({ scheduler }), { listen: '127.0.0.1', reached: '127.0.0.1' }, scheduler);
});

test('with a scheduler on this host that others may reach, agents are told to use the scheduler’s host', async (t) => {
  const hosts = await hostsOf({ grpcPlain: 'anywhere' });
  t.deepEqual(hosts, { listen: '0.0.0.0', reached: '0.0.0.0' });
  t.is(announcedAddress('0.0.0.0:41021', hosts), '0.0.0.0:41021');
  t.is(withHost('0.0.0.0:41021', 'queue.example.net'), 'queue.example.net:41021');
  t.is(withHost('[::]:41021', 'fd00::5'), '[fd00::5]:41021');
  t.is(withHost('http://0.0.0.0:8080', '10.0.0.1'), 'http://10.0.0.1:8080');
  t.is(withHost('10.0.0.0.0:8080', '10.0.0.1'), '10.0.0.0.0:8080');
});

test('with a scheduler elsewhere, it is the address that leads there', async (t) => {
  if (outside === undefined) {
    t.pass('skipped: this machine has no address but loopback');
    return;
  }
  const scheduler = `127.0.0.1:7070,${outside}:7070`;
  const hosts = await hostsOf({ scheduler, grpcPlain: 'anywhere' });
  t.deepEqual(hosts, { listen: outside, reached: outside });
  const wide = await hostsOf({ scheduler, grpcPlain: 'anywhere', invokeHost: '0.0.0.0' });
  t.deepEqual(wide, { listen: '0.0.0.0', reached: outside });
  t.is(announcedAddress('0.0.0.0:7071', wide), `${outside}:7071`);
  t.deepEqual(await hostsOf({ scheduler, invokeHost: '10.1.2.3' }), { listen: '10.1.2.3', reached: '10.1.2.3' });
});

test('workers learn the address of the HTTP API where no setting says it', (t) => {
  const url = (settings: Record<string, unknown>, reached: string): string =>
    httpUrlOf('8080', reached, { config: readConfig(settings, {}), certificate: null });
  t.is(url({}, '10.0.0.1'), 'http://127.0.0.1:8080');
  t.is(url({ host: '0.0.0.0' }, '10.0.0.1'), 'http://10.0.0.1:8080');
  t.is(url({ host: '::' }, 'fd00::1'), 'http://[fd00::1]:8080');
  t.is(url({ host: '10.0.0.9' }, '10.0.0.1'), 'http://10.0.0.9:8080');
  t.is(url({ publicUrl: 'https://api.example.org/' }, '10.0.0.1'), 'https://api.example.org');
});

test('the scheduler’s host is the name that was configured, else the address', (t) => {
  const of = (target: string, authority?: string): string =>
    hostOfScheduler({ key: target, target, ...(authority === undefined ? {} : { authority }) });
  t.is(of('ipv4:10.0.0.1:7070', 'queue.example.net:7070'), 'queue.example.net');
  t.is(of('10.0.0.1:7070'), '10.0.0.1');
  t.is(of('[fd00::1]:7070'), 'fd00::1');
  t.is(of('unix:/run/capstan.sock'), '127.0.0.1');
  t.is(hostOfScheduler(undefined), '127.0.0.1');
});
