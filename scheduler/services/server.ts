/**
 * The gRPC server that the scheduler's services are put on: message limits, keepalive, and the two
 * standard services that need no credentials, health and reflection (docs/borders.md, Borders).
 */
import { Server, type Metadata, type ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import { Admission, type Caller, type MethodRules } from '../../lib/grpc-admission.ts';
import { GrpcListener, type ConnectionLimits } from '../../lib/grpc-listener.ts';
import { Health } from './health.ts';
import { addLateService, type LateService } from './late-service.ts';

/** Calls that one connection may have open at once. */
const STREAMS_PER_CONNECTION = 1_024;

export interface GrpcServerOptions {
  /** Recognises the caller of every method but the open ones; throws a CapstanError. */
  readonly identify: (metadata: Metadata) => Caller;
  readonly connections?: ConnectionLimits;
  /** A connection that is silent this long is asked whether it lives, ms. */
  readonly keepaliveMs?: number;
  /** … and is closed when it does not answer for this long, ms. */
  readonly keepaliveTimeoutMs?: number;
}

export interface GrpcServer {
  /** Adds a service; before {@link GrpcServer.bind}. `rules`: of its methods, by their names in the definition. */
  add(definition: ServiceDefinition, handlers: UntypedServiceImplementation, rules?: Readonly<Record<string, MethodRules>>): void;
  /** Open connections, and how many of them showed no credentials. */
  readonly connections: { readonly all: number; readonly untrusted: number };
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
export function makeGrpcServer(options: GrpcServerOptions): GrpcServer {
  const listener = new GrpcListener(options.connections);
  const admission = new Admission({ identify: options.identify, onTrusted: (connection) => listener.trust(connection) });
  const server = new Server({
    ...messageLimits,
    'grpc.max_concurrent_streams': STREAMS_PER_CONNECTION,
    interceptors: [admission.interceptor],
    'grpc.keepalive_time_ms': options.keepaliveMs ?? 20_000,
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs ?? 10_000,
  });
  const addOpen = (service: LateService): void => {
    const definition = addLateService(server, service);
    admission.add(definition, Object.fromEntries(Object.keys(definition).map((name) => [name, { open: true }])));
  };
  for (const version of ['v1', 'v1alpha'])
    addOpen({
      name: `grpc.reflection.${version}.ServerReflection`,
      methods: { ServerReflectionInfo: 'duplex' },
      load: async (taker) => (await import('./reflection.ts')).addReflection(taker),
    });
  const health = new Health();
  addOpen({
    name: 'grpc.health.v1.Health',
    methods: { Check: 'unary', Watch: 'server-stream', List: 'unary' },
    load: (taker) => health.load(taker),
  });

  return {
    get connections() {
      return listener.counts;
    },
    add(definition, handlers, rules) {
      server.addService(definition, handlers);
      admission.add(definition, rules);
      // Every method's path is /<service>/<method>.
      const name = Object.values(definition)[0]?.path.split('/')[1];
      if (name === undefined) return;
      health.add(name);
    },
    async bind(address, credentials) {
      const { host, bare, port } = parseAddress(address);
      return `${host}:${await listener.listen(server, { host: bare, port, field: PORT_SETTING }, credentials)}`;
    },
    setServing: (serving) => health.setServing(serving),
    async close(graceMs) {
      health.setServing(false);
      await listener.shutDown(server, graceMs);
    },
  };
}

const PORT_SETTING = 'CAPSTAN_GRPC_PORT';

function parseAddress(address: string): { readonly host: string; readonly bare: string; readonly port: number } {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(address) ?? [];
  if (host === undefined || port === undefined)
    throw new CapstanError('CONFIG', `the address ${address} must be <host>:<port>`, { field: 'address' });
  return { host, bare: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}
