/**
 * The routes about jobs over any queue: the development server serves them over its own, with the same paths, bodies,
 * errors and limits as the gateway.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

import fastify from 'fastify';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { SharedBudget } from '../../lib/shared-budget.ts';
import { UploadMonitor } from '../../lib/upload-monitor.ts';
import { readConfig } from '../config.ts';
import type { Endpoint, Key } from '../directory/directory.ts';
import { AllowedMethods } from '../http/methods.ts';
import { errorHandler, installParsers, installRouting, MAX_PARAM_LENGTH } from '../http/rules.ts';
import { sendProblem, toCapstanError } from '../http/problem.ts';
import { controlRoutes } from '../http/routes/control.ts';
import { listingRoutes } from '../http/routes/listing.ts';
import { openAiRoutes } from '../http/routes/openai.ts';
import { statusRoutes } from '../http/routes/status.ts';
import { submitRoutes } from '../http/routes/submit.ts';
import type { JobQueue, JobServices } from '../http/services.ts';
import { TrustedProxies } from '../http/forwarded.ts';

export { checkBody } from '../http/guard.ts';
export { StreamCursors } from '../jobs/stream-cursors.ts';
export type { JobQueue } from '../http/services.ts';
export type { JobResult, ChannelRequest, Done, Operation } from '../jobs/channel.ts';

export interface QueueApiOptions {
  readonly queue: JobQueue;
  /** Returns the kind of an endpoint by its name, which is its id; undefined when there is none. */
  readonly kindOf: (name: string) => 'queue' | 'load-balanced' | undefined;
  /** Receives errors of this code. */
  readonly log: JobServices['log'];
}

export interface QueueApi {
  /** Responds to a request whose path begins with `/v2/`. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  close(): Promise<void>;
}

/** One account has everything, whatever the key. */
const KEY: Key = {
  hash: Buffer.alloc(0),
  accountId: '',
  scope: KeyScope.ALL,
  endpointIds: new Set(),
  environment: '',
  isSession: false,
  id: '',
  cell: '',
};

/** Creates the routes without a server. Any key is accepted, and none is required. */
export async function createQueueApi({ queue, kindOf, log }: QueueApiOptions): Promise<QueueApi> {
  const config = readConfig({}, {});
  const endpoint = (name: string): Endpoint | undefined => {
    const kind = kindOf(name);
    return kind === undefined ? undefined : endpointOf(name, kind);
  };
  const services: JobServices = {
    config,
    log,
    cells: { ofEndpoint: () => queue, atEndpoint: (_id, call) => call(queue) },
    lookup: {
      knownEndpoint: endpoint,
      knownEndpointOf: (_key, name) => endpoint(name),
      endpointOf: async (_key, name) => Promise.resolve(endpoint(name)),
    },
    authenticator: { cached: () => KEY, authenticate: async () => Promise.resolve(KEY) },
    memory: new SharedBudget(config.maxBodyMemoryBytes),
    uploads: new UploadMonitor({ minBytes: config.uploadMinBytes, windowMs: config.uploadWindowMs, now: () => performance.now() }),
    proxies: new TrustedProxies([]),
  };
  let handle: QueueApi['handle'] | undefined;
  const app = fastify({
    serverFactory: (handler) => {
      handle = handler;
      return createServer(handler);
    },
    logger: false,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, _request, reply) => {
      sendProblem(reply, toCapstanError(error));
    },
  });
  app.decorateRequest('bodyBytes', 0);
  app.decorateRequest('streamedBytes', 0);
  app.decorateRequest('span', null);
  installParsers(app, services);
  installRouting(app, new AllowedMethods());
  app.setErrorHandler(errorHandler(log));
  for (const add of [submitRoutes, statusRoutes, controlRoutes, listingRoutes, openAiRoutes]) add(app, services);
  await app.ready();
  return { handle: (request, response) => handle?.(request, response), close: () => app.close() };
}

function endpointOf(name: string, kind: 'queue' | 'load-balanced'): Endpoint {
  return {
    id: name,
    name,
    accountId: KEY.accountId,
    environment: '',
    kind: kind === 'queue' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
    releaseId: '',
    routes: [],
    isPublic: true,
    description: '',
    cell: KEY.cell,
  };
}
