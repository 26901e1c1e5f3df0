/**
 * A service that is loaded at its first call. The libraries for health and reflection parse `.proto` files and build
 * codecs from them: half a second of processor time, as much as the rest of the scheduler's start, and most schedulers
 * never use them. Until then the server knows only the paths of their methods, and receives bytes; the library adds the
 * rest.
 */
import {
  status,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type MethodDefinition,
  type Server,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type ServiceError,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';

import { messageOf } from '../../lib/to-error.ts';

/** The part of a gRPC server that a service registers with. */
export type ServiceTaker = Pick<Server, 'addService'>;

export type Kind = 'unary' | 'server-stream' | 'duplex';

export interface LateService {
  /** Full name: `grpc.health.v1.Health`. */
  readonly name: string;
  /** Its methods by their names on the wire. */
  readonly methods: Readonly<Record<string, Kind>>;
  /** Adds the service, and possibly others, to the given server. */
  load(taker: ServiceTaker): Promise<void>;
}

type Handler = (call: object, answer?: (error: Partial<ServiceError> | null, reply?: unknown) => void) => void;

interface Loaded {
  readonly definition: MethodDefinition<unknown, unknown>;
  readonly handler: Handler;
}

export interface AddedService {
  readonly definition: ServiceDefinition;
  /** Loads the implementation before the first call. */
  load(): Promise<void>;
}

/**
 * Adds a service to a server. The implementation is loaded at the first call. A failed load is tried again at the next
 * call.
 */
export function addLateService(server: Server, service: LateService): AddedService {
  let loading: Promise<ReadonlyMap<string, Loaded>> | null = null;
  const loaded = new Map<string, Loaded>();
  const load = async (path: string): Promise<Loaded> => {
    loading ??= loadMethods(service);
    try {
      const method = (await loading).get(path);
      if (method === undefined) throw new Error(`${service.name} does not implement ${path}`);
      loaded.set(path, method);
      return method;
    } catch (error) {
      loading = null;
      throw error;
    }
  };
  const definitions: Record<string, MethodDefinition<unknown, unknown>> = {};
  const handlers: UntypedServiceImplementation = {};
  for (const [name, kind] of Object.entries(service.methods)) {
    const path = `/${service.name}/${name}`;
    definitions[name] = definitionOf(path, kind, () => loaded.get(path));
    handlers[name] = handlerOf(kind, () => load(path));
  }
  server.addService(definitions, handlers);
  const paths = Object.values(definitions).map(({ path }) => path);
  return { definition: definitions, load: async () => void (await Promise.all(paths.map((path) => load(path)))) };
}

function definitionOf(path: string, kind: Kind, loaded: () => Loaded | undefined): MethodDefinition<unknown, unknown> {
  const bytes = (value: unknown): Buffer => value as Buffer;
  return {
    path,
    requestStream: kind === 'duplex',
    responseStream: kind !== 'unary',
    requestSerialize: bytes,
    // A single request is read before its handler is called, a stream only by its handler, which has loaded by then.
    requestDeserialize: (value) => (kind === 'duplex' ? loaded()?.definition.requestDeserialize(value) : value),
    responseSerialize: (value) => loaded()?.definition.responseSerialize(value) ?? Buffer.alloc(0),
    responseDeserialize: bytes,
  };
}

function handlerOf(kind: Kind, load: () => Promise<Loaded>): UntypedServiceImplementation[string] {
  const failure = (error: unknown): Partial<ServiceError> => ({
    code: status.INTERNAL,
    details: error instanceof Error ? error.message : String(error),
  });
  switch (kind) {
    case 'unary':
      return ((call: ServerUnaryCall<unknown, unknown>, answer) => {
        load().then(
          ({ definition, handler }) => {
            const refusal = readRequest(call, definition);
            if (refusal === null) handler(call, answer);
            else answer(refusal);
          },
          (error: unknown) => answer(failure(error)),
        );
      }) satisfies handleUnaryCall<unknown, unknown>;
    case 'server-stream':
      return ((call: ServerWritableStream<unknown, unknown>) => {
        load().then(
          ({ definition, handler }) => {
            // A call cancelled in the meantime gets no reply, and must not be watched forever.
            if (call.cancelled) return;
            const refusal = readRequest(call, definition);
            if (refusal === null) handler(call);
            else call.emit('error', refusal);
          },
          (error: unknown) => call.emit('error', failure(error)),
        );
      }) satisfies handleServerStreamingCall<unknown, unknown>;
    case 'duplex':
      return (call: ServerDuplexStream<unknown, unknown>) => {
        load().then(
          ({ handler }) => handler(call),
          (error: unknown) => call.emit('error', failure(error)),
        );
      };
  }
}

/** Reads the bytes of a stranger in place of the request. Returns why they are no request; null if they are one. */
function readRequest(call: { request: unknown }, definition: MethodDefinition<unknown, unknown>): Partial<ServiceError> | null {
  try {
    call.request = definition.requestDeserialize(call.request as Buffer);
    return null;
  } catch (error) {
    return { code: status.INVALID_ARGUMENT, details: `the request cannot be read: ${messageOf(error)}` };
  }
}

async function loadMethods(service: LateService): Promise<Map<string, Loaded>> {
  const methods = new Map<string, Loaded>();
  await service.load({
    addService(definitions, handlers) {
      for (const [name, definition] of Object.entries(definitions)) {
        const { originalName } = definition as { originalName?: string };
        const handler = (handlers[name] ?? handlers[originalName ?? name]) as Handler | undefined;
        if (handler !== undefined) methods.set(definition.path, { definition, handler: handler.bind(handlers) });
      }
    },
  });
  return methods;
}
