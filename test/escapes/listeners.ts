/** What attackers may not reach, in the network namespace where it is started: `node listeners.ts <name of an abstract socket> <address>`. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

export interface Ports {
  /** Of 127.0.0.1. */
  readonly loopbackPort: number;
  /** Of the address. */
  readonly hostPort: number;
}

async function listen(where: { readonly host: string; readonly port: number } | { readonly path: string }): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => undefined).end('hello'));
  server.listen(where);
  await once(server, 'listening');
  const address = server.address() as AddressInfo | string;
  return typeof address === 'string' ? 0 : address.port;
}

const [abstractSocket = '', address = ''] = process.argv.slice(2);
await listen({ path: `\0${abstractSocket}` });
const ports: Ports = {
  loopbackPort: await listen({ host: '127.0.0.1', port: 0 }),
  hostPort: await listen({ host: address, port: 0 }),
};
console.log(JSON.stringify(ports));
// It ends with the test, however that ends.
process.stdin.resume().once('end', () => process.exit());
