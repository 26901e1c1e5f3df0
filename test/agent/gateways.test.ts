/** An agent's streams to gateways, over real gRPC, while the scheduler's list of gateways changes. */
import { once } from 'node:events';

import { Server, ServerCredentials } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { Gateways } from '../../agent/invoke/gateways.ts';
import { InvokeServiceService, type InvokeServiceServer } from '../../proto/gen/capstan/v1/invoke.ts';
import { Signals } from './signals.ts';

test('a gateway that a new owner does not list yet keeps its stream, and so do its requests', async (t) => {
  const gateway = await startGateway(t);
  const gateways = agentOf(t, 60_000);
  gateways.set({ gateways: [{ address: gateway.address, token: 'first', httpUrl: '' }] });
  await gateway.opened.next(() => true);
  const other = await startGateway(t);
  gateways.set({ gateways: [{ address: other.address, token: 'second', httpUrl: '' }] });
  await other.opened.next(() => true);
  gateways.set({ gateways: [gateway, other].map(({ address }) => ({ address, token: 'third', httpUrl: '' })) });
  gateways.workersChanged();
  t.deepEqual([gateway.opened.items.length, gateway.isEnded()], [1, false]);
});

test('a gateway that stays away from the list loses its stream', async (t) => {
  const gateway = await startGateway(t);
  const gateways = agentOf(t, 1);
  gateways.set({ gateways: [{ address: gateway.address, token: 'first', httpUrl: '' }] });
  await gateway.opened.next(() => true);
  gateways.set({ gateways: [] });
  await gateway.ended;
  gateways.set({ gateways: [{ address: gateway.address, token: 'second', httpUrl: '' }] });
  t.is(await gateway.opened.next((token) => token !== 'Bearer first'), 'Bearer second');
});

function agentOf(t: ExecutionContext, graceMs: number): Gateways {
  const gateways = new Gateways({
    tls: {},
    log: pino({ level: 'silent' }),
    nodeId: () => 'node-1',
    workers: () => [],
    serve: () => null,
    schedulerHost: () => '127.0.0.1',
    graceMs,
  });
  t.teardown(() => gateways.close());
  return gateways;
}

async function startGateway(t: ExecutionContext) {
  const opened = new Signals<string>();
  const ended = Promise.withResolvers<void>();
  let isEnded = false;
  const server = new Server();
  server.addService(InvokeServiceService, {
    invoke: (call) => {
      opened.push(String(call.metadata.get('authorization')[0]));
      call.resume();
      void once(call, 'end').then(() => {
        isEnded = true;
        ended.resolve();
        call.end();
      });
    },
  } satisfies InvokeServiceServer);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  t.teardown(() => server.forceShutdown());
  return { address: `127.0.0.1:${port}`, opened, ended: ended.promise, isEnded: () => isEnded };
}
