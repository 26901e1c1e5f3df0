/**
 * The gRPC server of the scheduler's services: message limits, keepalive, and the two standard services that need no
 * credentials, health and reflection (docs/borders.md).
 */
import { Server, type Metadata, type ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { cellHealth } from '../../lib/cells.ts';
import { CapstanError } from '../../lib/errors.ts';
import { Admission, type Caller, type MethodRules } from '../../lib/grpc-admission.ts';
import { GrpcListener, type ConnectionLimits } from '../../lib/grpc-listener.ts';
import { Health } from './health.ts';
import { addLateService, type AddedService, type LateService } from './late-service.ts';

/** Limit of open calls per connection. */
const STREAMS_PER_CONNECTION = 1_024;

export interface GrpcServerOptions {
  /** Authenticates the caller of every method except those that need no credentials; throws a CapstanError. */
  readonly identify: (metadata: Metadata) => Caller;
  /** Why calls are refused before their credentials are read, except health and reflection; null while they are accepted. */
  readonly refusal?: (metadata: Metadata) => CapstanError | null;
  /** The cell whose ownership the health tells. */
  readonly cell?: string;
  /** The term under which the scheduler serves, which goes ahead of every response; null without one. */
  readonly term?: () => bigint | null;
  readonly connections?: ConnectionLimits;
  /** Silence of a connection after which a keepalive ping is sent, ms. */
  readonly keepaliveMs?: number;
  /** Time after which a connection without a reply to the ping is closed, ms. */
  readonly keepaliveTimeoutMs?: number;
}

export interface GrpcServer {
  /**
   * Adds a service; before {@link GrpcServer.bind}. `rules`: rules of its methods, by their names in the definition.
   */
  add(definition: ServiceDefinition, handlers: UntypedServiceImplementation, rules?: Readonly<Record<string, MethodRules>>): void;
  /** Number of open connections, and of those without valid credentials. */
  readonly connections: { readonly all: number; readonly untrusted: number };
  /**
   * Listens on `host:port` (0 for a free port) and serves. Returns the address for clients. ADDRESS_IN_USE if another
   * program has the port, CONFIG if the address cannot be used.
   */
  bind(address: string, credentials: ServerCredentials): Promise<string>;
  /** Loads what answers health before it is asked for: the first reply of a standby must not delay its take-over. */
  preload(): Promise<void>;
  /** Sets the health of the server and of every service: false while it must get no calls. */
  setServing(serving: boolean): void;
  /** Accepts no new calls and waits for the open ones; ends those still open after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** Creates the server with health and reflection. Health is NOT_SERVING until it is set. */
export function makeGrpcServer(options: GrpcServerOptions): GrpcServer {
  const listener = new GrpcListener(options.connections);
  const admission = new Admission({
    identify: options.identify,
    ...(options.refusal === undefined ? {} : { refusal: options.refusal }),
    greeting: () => {
      const term = options.term?.() ?? null;
      return term === null ? {} : { [TERM_KEY]: String(term) };
    },
    onTrusted: (connection) => listener.trust(connection),
  });
  const server = new Server({
    ...messageLimits,
    'grpc.max_concurrent_streams': STREAMS_PER_CONNECTION,
    interceptors: [admission.interceptor],
    'grpc.keepalive_time_ms': options.keepaliveMs ?? 20_000,
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs ?? 10_000,
  });
  const addOpen = (service: LateService): AddedService => {
    const added = addLateService(server, service);
    const names = Object.keys(added.definition);
    admission.add(added.definition, Object.fromEntries(names.map((name) => [name, { open: true, standby: true }])));
    return added;
  };
  for (const version of ['v1', 'v1alpha'])
    addOpen({
      name: `grpc.reflection.${version}.ServerReflection`,
      methods: { ServerReflectionInfo: 'duplex' },
      load: async (taker) => (await import('./reflection.ts')).addReflection(taker),
    });
  const health = new Health();
  if (options.cell !== undefined) health.add(cellHealth(options.cell));
  const healthService = addOpen({
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
    preload: () => healthService.load(),
    setServing: (serving) => health.setServing(serving),
    async close(graceMs) {
      health.setServing(false);
      await listener.shutDown(server, graceMs);
    },
  };
}

/** Initial metadata: who saw a higher term knows that this scheduler is no longer the owner. */
const TERM_KEY = 'capstan-term';
const PORT_SETTING = 'CAPSTAN_GRPC_PORT';

function parseAddress(address: string): { readonly host: string; readonly bare: string; readonly port: number } {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(address) ?? [];
  if (host === undefined || port === undefined)
    throw new CapstanError('CONFIG', `the address ${address} must be <host>:<port>`, { field: 'address' });
  return { host, bare: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}
