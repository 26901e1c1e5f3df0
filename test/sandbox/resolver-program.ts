/**
 * Looks a name up from a worker's network while a resolver of its own answers at the address that /etc/resolv.conf names. To be
 * run in a mount namespace whose /etc/resolv.conf names a loopback address. Prints the answer.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

import { openTestSandbox } from '../support/sandbox.ts';

const [folder = ''] = process.argv.slice(2);
const [, resolver = ''] = /^nameserver (\S+)/m.exec(readFileSync('/etc/resolv.conf', 'utf8')) ?? [];
/** Flags of an answer, one question, one answer; a record of type A with the address 192.0.2.77 for the name in the question. */
const HEAD = Buffer.from('81800001000100000000', 'hex');
const RECORD = Buffer.from('c00c00010001000000050004c000024d', 'hex');
const ID_BYTES = 2;
const NAME_AT = 12;
/** The end of the name, type and class. */
const AFTER_NAME = 5;

const server = createSocket('udp4');
server.on('message', (query, { port, address }) => {
  const question = query.subarray(NAME_AT, query.indexOf(0, NAME_AT) + AFTER_NAME);
  server.send(Buffer.concat([query.subarray(0, ID_BYTES), HEAD, question, RECORD]), port, address);
});
server.bind(53, resolver);
await once(server, 'listening');

const { launcher } = await openTestSandbox(folder, { spares: false, network: { setting: 'outbound', allowed: [], spares: 0 } });
if (launcher === undefined) throw new Error('there is no sandbox');
launcher.setGateway('');
const worker = launcher.launch({
  kind: 'program',
  command: 'node',
  args: ['-e', "require('node:dns').lookup('worker.test', (error, address) => console.log(error?.code ?? address))"],
  env: launcher.environmentOf({}),
  assignment: { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0, network: 'outbound' },
});
worker.stdout?.pipe(process.stdout);
worker.stderr?.pipe(process.stderr);
await worker.gone;
await launcher.close();
server.close();
