/** What gateways are told of nodes and endpoints: what they do not know yet, and nothing by an owner that may be none. */
import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import { Duplex } from 'node:stream';

import { CapstanError } from '../../../lib/errors.ts';
import type { GatewayNotice, GatewayReport } from '../../../proto/gen/capstan/v1/invoke.ts';
import { GatewaySessions, type GatewayServiceDeps } from '../../../scheduler/services/gateway-service.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { Signals } from '../../agent/signals.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const MODEL = 'NVIDIA H100 80GB HBM3';
const unavailable = new CapstanError('UNAVAILABLE', 'the scheduler is taking over its queue');

/** Sessions of gateways over a world whose term a test may take away. */
function sessionsOf(t: ExecutionContext) {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(
    queueInput('e', { kind: 'LOAD_BALANCED', workersMin: 0, workersMax: 1, gpuIds: MODEL, gpuCount: 1 }),
  );
  const term = { isOwned: true, looks: Number.POSITIVE_INFINITY };
  const engine = {
    get owns() {
      return term.isOwned;
    },
    get image() {
      return world.image;
    },
    get state() {
      term.looks -= 1;
      if (term.looks < 0) throw unavailable;
      return world.image;
    },
    requireOwner() {
      if (!term.isOwned) throw unavailable;
    },
    handle() {},
  };
  const deps = {
    ...{ engine, sessions: { send() {}, broadcast() {}, isLocal: () => false }, auth: { gateway() {} } },
    ...{ clock: { now: () => world.now() }, gatewayToken: { value: Buffer.alloc(32) }, counters: [], log: {} },
  } as unknown as GatewayServiceDeps;
  const gateways = new GatewaySessions(deps);
  t.teardown(() => gateways.close(unavailable));
  const notices = new Signals<GatewayNotice>();
  const errors: unknown[] = [];
  const begin = (): void => {
    const call = new Duplex({
      objectMode: true,
      read() {},
      write(notice: GatewayNotice, _encoding, done) {
        notices.push(notice);
        done();
      },
    });
    call.on('error', (error) => errors.push(error));
    const session = Object.assign(call, { metadata: new Metadata(), getPeer: () => '10.0.0.1:1' });
    gateways.service().session(session as unknown as ServerDuplexStream<GatewayReport, GatewayNotice>);
  };
  const level = (held: number): void =>
    world.event({ kind: 'levels', gateway: 9, levels: [{ endpointId: endpoint, held, inFlight: 0, oldestHeldMs: 1 }] } as never);
  return { world, gateways, endpoint, term, notices, errors, begin, level };
}

test('a gateway learns that an endpoint is served again, whichever notice told it that it was not', async (t) => {
  const { world, gateways, endpoint, notices, begin, level } = sessionsOf(t);
  begin();
  await notices.next(({ unservable }) => unservable.length === 0);
  level(1);
  world.pass(60_000);
  gateways.tellRemoved();
  t.is((await notices.next(({ unservable }) => unservable.length > 0)).unservable[0]?.endpointId, endpoint);
  const from = notices.items.length;
  world.connect('a', ['g0'], { devices: [{ uuid: 'g0', model: MODEL, memoryBytes: 80_000_000_000n, healthy: true }] } as never);
  world.pass(3_000);
  t.deepEqual((await notices.next(() => true, from)).unservable, []);
});

test('an owner whose term ends while it looks tells what it saw at once, and later nothing', async (t) => {
  const { world, term, notices, begin, level } = sessionsOf(t);
  begin();
  await notices.next(() => true);
  // A second look at the state would throw, out of a timer.
  term.looks = 1;
  level(1);
  world.pass(60_000);
  await notices.next(({ unservable }) => unservable.length > 0);
  const told = notices.items.length;
  term.isOwned = false;
  level(0);
  await new Promise((resolve) => setTimeout(resolve, 600));
  t.is(notices.items.length, told);
});

test('a gateway that connects while the term is not confirmed is refused, and not kept', (t) => {
  const { term, notices, errors, begin } = sessionsOf(t);
  term.isOwned = false;
  begin();
  t.is(errors.length, 1);
  t.is(notices.items.length, 0);
});
