/**
 * The gRPC server that the scheduler's services are put on: message limits, keepalive, and the two
 * standard services that need no credentials, health and reflection (docs/architecture.md, Borders).
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

import { Server, type ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';

import { messageLimits } from '../../proto/batches.ts';
import { CapstanError } from '../../proto/errors.ts';
import { isErrno, messageOf } from '../../proto/thrown.ts';
import { Health } from './health.ts';
import { addLateService } from './late-service.ts';

export interface GrpcServerOptions {
  /** A connection that is silent this long is asked whether it lives, ms. */
  readonly keepaliveMs?: number;
  /** … and is closed when it does not answer for this long, ms. */
  readonly keepaliveTimeoutMs?: number;
}

export interface GrpcServer {
  /** Adds a service; before {@link GrpcServer.bind}. */
  add(definition: ServiceDefinition, handlers: UntypedServiceImplementation): void;
  /**
   * Listens on `host:port` (0 for a free port) and serves; answers with the address that clients
   * dial. ADDRESS_IN_USE when another program has the port, CONFIG when the address cannot be used.
   */
  bind(address: string, credentials: ServerCredentials): Promise<string>;
  /** What health checks are told, of the server and of every service: false while it must get no calls. */
  setServing(serving: boolean): void;
  /** Takes no new call and lets the open ones end; what is still open after `graceMs` is cut off. */
  close(graceMs: number): Promise<void>;
}

/** Makes the server with health and reflection on it. Health says NOT_SERVING until told otherwise. */
export function makeGrpcServer(options: GrpcServerOptions = {}): GrpcServer {
  const server = new Server({
    ...messageLimits,
    'grpc.keepalive_time_ms': options.keepaliveMs ?? 20_000,
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs ?? 10_000,
  });
  for (const version of ['v1', 'v1alpha'])
    addLateService(server, {
      name: `grpc.reflection.${version}.ServerReflection`,
      methods: { ServerReflectionInfo: 'duplex' },
      load: async (taker) => (await import('./reflection.ts')).addReflection(taker),
    });
  const health = new Health();
  addLateService(server, {
    name: 'grpc.health.v1.Health',
    methods: { Check: 'unary', Watch: 'server-stream', List: 'unary' },
    load: (taker) => health.load(taker),
  });

  return {
    add(definition, handlers) {
      server.addService(definition, handlers);
      // Every method's path is /<service>/<method>.
      const name = Object.values(definition)[0]?.path.split('/')[1];
      if (name === undefined) return;
      health.add(name);
    },
    bind: (address, credentials) => bind(server, address, credentials),
    setServing: (serving) => health.setServing(serving),
    async close(graceMs) {
      health.setServing(false);
      let deadline: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        // An error here only says that there is nothing (left) to close.
        server.tryShutdown(() => resolve());
        deadline = setTimeout(() => server.forceShutdown(), graceMs);
      });
      clearTimeout(deadline);
    },
  };
}

async function bind(server: Server, address: string, credentials: ServerCredentials): Promise<string> {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(address) ?? [];
  if (host === undefined || port === undefined)
    throw new CapstanError('CONFIG', `the address ${address} must be <host>:<port>`, { field: 'address' });
  // The library passes the system's error on as text only, and prints it: so the address is tried first.
  if (port !== '0') await tryListening(host.replace(/^\[(.*)\]$/, '$1'), Number(port), address);
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => {
      if (error === null) resolve(`${host}:${bound}`);
      else reject(new CapstanError('CONFIG', `cannot listen on ${address}: ${error.message}`, { field: 'address', cause: error }));
    });
  });
}

async function tryListening(host: string, port: number, address: string): Promise<void> {
  const probe = createServer();
  try {
    probe.listen({ host, port });
    await once(probe, 'listening');
  } catch (error) {
    if (isErrno(error, 'EADDRINUSE')) throw new CapstanError('ADDRESS_IN_USE', `another program listens on ${address}`, { cause: error });
    const detail = messageOf(error);
    throw new CapstanError('CONFIG', `cannot listen on ${address}: ${detail}`, { field: 'address', cause: error });
  }
  probe.close();
  await once(probe, 'close');
}
