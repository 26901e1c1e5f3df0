/** Which addresses webhooks may reach. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { AddressGuard, parseAllowList } from '../../../scheduler/webhooks/guard.ts';

const closed = new AddressGuard(parseAllowList(''));
const REFUSED_URL = /^must not resolve to a private address; an operator can allow some with CAPSTAN_WEBHOOK_ALLOW$/;

/** Every way to write an address that is not public. */
const privateHosts = [
  // loopback: dotted, short, decimal, octal, hexadecimal, mixed, full-width, with the root's dot
  '127.0.0.1',
  '127.1',
  '127.0.1',
  '2130706433',
  '0177.0.0.1',
  '017700000001',
  '0x7f.0.0.1',
  '0x7f000001',
  '0x7f.1',
  '１２７.０.０.１',
  '127.0.0.1.',
  '127.255.255.254',
  // names of this host
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  // this network, private, carrier-grade NAT, link-local (and its metadata services), benchmarks, documentation
  '0.0.0.0',
  '0',
  '0.1.2.3',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '3232235777',
  '100.64.0.1',
  '169.254.169.254',
  '0xa9fea9fe',
  '192.0.0.1',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.9',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.255',
  // IPv6: unspecified, loopback, unique-local, link-local, site-local, multicast, discard, documentation
  '[::]',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[fc00::1]',
  '[fd12:3456:789a::1]',
  '[fe80::1]',
  '[febf::1]',
  '[fec0::1]',
  '[ff02::1]',
  '[100::1]',
  '[2001:db8::1]',
  '[4000::1]',
  // IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::ffff:10.0.0.1]',
  '[::127.0.0.1]',
  '[::7f00:1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::a00:1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
  '[2002:a00:1::]',
  '[2001:0:7f00:1::1]',
];

for (const host of privateHosts) {
  test(`refused at submission: http://${host}/`, (t) => {
    t.regex(closed.refusal(`http://${host}/hook`) ?? '', REFUSED_URL);
    t.regex(closed.refusal(`https://user:secret@${host}:8443/hook?a#b`) ?? '', REFUSED_URL);
  });
}

test('public addresses, and names that only the connection can tell, are let through', (t) => {
  const hosts = [
    '8.8.8.8',
    '1.1.1.1',
    '134744072',
    '[2606:4700::1111]',
    '[::ffff:8.8.8.8]',
    '[64:ff9b::808:808]',
    'example.com',
    'localhost.example.com',
  ];
  for (const host of hosts) t.is(closed.refusal(`https://${host}/`), null, host);
});

test('what is no http or https URL is refused', (t) => {
  for (const url of ['', 'example.com', 'ftp://example.com/', 'file:///etc/passwd', 'http://', 'http://1.2.3.4.5/', 'http://[::1/'])
    t.is(closed.refusal(url), 'must be an http or https URL', url);
});

test('at the connection each address is judged, whatever its name', (t) => {
  for (const address of [
    '127.0.0.1',
    '10.1.2.3',
    '169.254.169.254',
    '::1',
    'fe80::1',
    '::ffff:10.0.0.1',
    'fd00::1',
    '0.0.0.0',
    'nonsense',
    '',
  ])
    t.false(closed.admits('example.com', address), address);
  for (const address of ['8.8.8.8', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::808:808'])
    t.true(closed.admits('example.com', address), address);
});

test('the operator opens networks, addresses and names; nothing beside them', (t) => {
  const open = new AddressGuard(parseAllowList(' 10.0.0.0/8, 192.168.7.7 ,fd00::/8,::1, Hooks.Internal '));
  for (const address of ['10.200.0.1', '192.168.7.7', 'fd00::1', '::1', '::ffff:10.1.1.1', '64:ff9b::a01:101', '8.8.8.8'])
    t.true(open.admits('any.example', address), address);
  for (const address of ['11.0.0.1', '192.168.7.8', 'fc00::1', '127.0.0.1', '::ffff:127.0.0.1'])
    t.is(open.admits('any.example', address), address === '11.0.0.1', address);
  t.true(open.admits('hooks.internal', '127.0.0.1'));
  t.true(open.admits('HOOKS.internal.', '192.168.1.1'));
  t.false(open.admits('hooks.internal.example', '127.0.0.1'));
  t.is(open.refusal('http://10.1.2.3/'), null);
  t.is(open.refusal('http://localhost/'), null, '::1 is open, and localhost may be that');
  t.regex(open.refusal('http://127.0.0.1/') ?? '', REFUSED_URL);
});

test('an entry that is none is refused by name', (t) => {
  for (const entry of ['10.0.0.0/33', '10.0.0', '::1/129', 'http://x', 'a b', '*', '-x', '10.0.0.0/', '300.1.1.1'])
    t.throws(
      () => parseAllowList(`example.com,${entry}`),
      { message: `CAPSTAN_WEBHOOK_ALLOW: '${entry}' must be a network, an address or a host name` },
      entry,
    );
  t.deepEqual(parseAllowList(' , ,').networks, []);
});

testProp('an IPv4 address is judged the same in every disguise', [fc.ipV4()], (t, address) => {
  const octets = address.split('.').map(Number);
  const whole = octets.reduce((sum, octet) => sum * 256 + octet, 0);
  const hex = (number: number): string => number.toString(16);
  const [a = 0, b = 0, c = 0, d = 0] = octets;
  const admitted = closed.admits('x', address);
  for (const host of [String(whole), `0x${hex(whole)}`, octets.map((octet) => `0${octet.toString(8)}`).join('.'), `[::ffff:${address}]`])
    t.is(closed.refusal(`http://${host}/`) === null, admitted, host);
  for (const disguised of [`::ffff:${hex(a * 256 + b)}:${hex(c * 256 + d)}`, `64:ff9b::${hex(a * 256 + b)}:${hex(c * 256 + d)}`])
    t.is(closed.admits('x', disguised), admitted, disguised);
});

test('a host name longer than any resolver knows is refused', (t) => {
  const guard = new AddressGuard(parseAllowList(''));
  const name = `${'a'.repeat(60)}.`.repeat(5);
  t.is(guard.refusal(`https://${name}example/`), 'must have a host name of at most 253 characters');
  t.is(guard.refusal(`https://${name.slice(0, 244)}.example/`), null);
});
