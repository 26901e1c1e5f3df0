/** Which destinations the setting names, which rules follow, and which way leads to the gateway. */
import test from 'ava';

import { readConfig } from '../../agent/config.ts';
import { readDestination } from '../../agent/sandbox/network/destinations.ts';
import { firewall } from '../../agent/sandbox/network/firewall.ts';
import { wayTo } from '../../agent/sandbox/network/gateway-address.ts';
import { openNetworks } from '../../agent/sandbox/network/open-networks.ts';
import { folderOf } from '../support/folder.ts';

test('a destination is an address, a network, or a port of one', (t) => {
  t.deepEqual(readDestination('10.0.0.5'), { family: 4, address: '10.0.0.5', prefix: 32 });
  t.deepEqual(readDestination('10.1.0.0/16'), { family: 4, address: '10.1.0.0', prefix: 16 });
  t.deepEqual(readDestination('10.0.0.5:5432'), { family: 4, address: '10.0.0.5', prefix: 32, port: 5432 });
  t.deepEqual(readDestination('10.1.0.0/16:443'), { family: 4, address: '10.1.0.0', prefix: 16, port: 443 });
  t.deepEqual(readDestination('fd00::5'), { family: 6, address: 'fd00::5', prefix: 128 });
  t.deepEqual(readDestination('fd00::/8'), { family: 6, address: 'fd00::', prefix: 8 });
  t.deepEqual(readDestination('[fd00::5]:5432'), { family: 6, address: 'fd00::5', prefix: 128, port: 5432 });
  for (const text of [
    '',
    'db.internal',
    '10.0.0',
    '10.0.0.5/33',
    '10.0.0.5:0',
    '10.0.0.5:99999',
    '[10.0.0.5',
    'fd00::5/129',
    '10.0.0.5; accept',
    '::1:x',
  ])
    t.is(readDestination(text), undefined, text);
});

test('a destination that is none is refused by the name of the setting', (t) => {
  const error = t.throws(() => readConfig({}, { CAPSTAN_WORKER_NETWORK_ALLOW: '10.0.0.5, db.internal' }));
  t.regex(error?.message ?? '', /CAPSTAN_WORKER_NETWORK_ALLOW.*"db.internal" must be an address/);
  t.deepEqual(readConfig({}, { CAPSTAN_WORKER_NETWORK_ALLOW: ' 10.0.0.5 ,' }).workerNetworkAllow, [
    { family: 4, address: '10.0.0.5', prefix: 32 },
  ]);
});

test('what is allowed comes before what is refused, and nothing is allowed by default', (t) => {
  const rules = firewall({ allowed: [{ family: 4, address: '10.0.0.5', prefix: 32, port: 5432 }], own: ['8.8.4.4', 'fe80::1', '2600::7'] });
  const at = (text: string): number => {
    const found = rules.indexOf(text);
    t.not(found, -1, text);
    return found;
  };
  t.true(at('policy drop') < at('ip daddr 10.0.0.5/32 meta l4proto { tcp, udp } th dport 5432 accept'));
  t.true(at('th dport 5432 accept') < at('10.0.0.0/8'));
  for (const refused of ['169.254.0.0/16', '100.64.0.0/10', '2002::/16', 'ip daddr 8.8.4.4 reject', 'ip6 daddr 2600::7 reject'])
    t.true(at(refused) < at('meta l4proto { tcp, udp, icmp, ipv6-icmp } accept'), refused);
});

test('the way to the gateway is a forwarded port on loopback, and an exception elsewhere', async (t) => {
  t.deepEqual(await wayTo('http://127.0.0.1:8080'), { reached: [8080], allowed: [] });
  t.deepEqual(await wayTo('http://[::1]:8080/prefix'), { reached: [8080], allowed: [] });
  t.deepEqual((await wayTo('http://localhost')).reached, [80]);
  t.deepEqual(await wayTo('https://10.0.0.9'), { reached: [], allowed: [{ family: 4, address: '10.0.0.9', prefix: 32, port: 443 }] });
  t.deepEqual(await wayTo('http://no-such-name.invalid'), { reached: [], allowed: [] });
  t.deepEqual(await wayTo(''), { reached: [], allowed: [] });
});

test('what a host lacks is named with the command that adds it', async (t) => {
  const options = { uid: undefined, folder: await folderOf(t), allowed: [], spares: 0, log: { warn: () => undefined } };
  const without = (...absent: string[]): ReturnType<typeof openNetworks> =>
    openNetworks(options, (name) => (absent.includes(name) ? undefined : `/usr/bin/${name}`));
  t.deepEqual((await without('pasta', 'nft')).missing, [
    { without: 'outbound', reason: 'pasta and nft are not installed', remedy: 'apt install passt nftables' },
  ]);
  t.deepEqual((await without('nft')).missing, [{ without: 'outbound', reason: 'nft is not installed', remedy: 'apt install nftables' }]);
});
