/**
 * Serves a web application in a worker, on PORT: what Express, Fastify, Hono and others export, or a file that listens
 * itself. Only builds contain this file; the published package has no imports of Node.
 */
import { subscribe } from 'node:diagnostics_channel';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';

import { declarations } from '../registry.ts';
import { fetchListener, type FetchApp } from './fetch-listener.ts';

export interface AppSource {
  /** Loads the file of the application, or of the declaration that holds it. */
  readonly load: () => Promise<unknown>;
  /** The declaration's endpoint, if that holds the application. */
  readonly endpoint?: string;
  /** Its name in the file; empty for the default export or an export `app`. */
  readonly name?: string;
}

/** A server that runs, and how to end it in order. */
interface Serving {
  close(): unknown;
}

/** Serves until SIGTERM. Ends the process with code 1 when there is nothing to serve. */
export async function serveApp(source: AppSource): Promise<void> {
  const port = Number(process.env['PORT']);
  const host = process.env['CAPSTAN_HOST'] ?? '127.0.0.1';
  const ports = watchListening();
  let app: unknown;
  try {
    ({ app } = await appOf(await source.load(), source));
  } catch (error) {
    fail(error);
    return;
  }
  // A file that listens on PORT serves itself, whatever it exports.
  if (ports.has(port)) return;
  if (app === undefined) {
    // It may listen later, after a connection to its database, say.
    process.once('beforeExit', () => {
      const others = ports.size === 0 ? '' : ` (it listened on ${[...ports].join(', ')})`;
      fail(new Error(`the file exports no application and does not listen on process.env.PORT${others}`));
    });
    if (ports.size > 0) process.stderr.write(`listening on ${[...ports].join(', ')}, not on process.env.PORT (${port})\n`);
    return;
  }
  try {
    const serving = await listen(app, port, host);
    process.once('SIGTERM', () => {
      void Promise.resolve(serving.close()).then(() => process.exit(0), fail);
    });
  } catch (error) {
    fail(error);
  }
}

/** The application is undefined when the file exports none. In an object, because an application of Fastify has a method `then`. */
async function appOf(module: unknown, { endpoint, name = '' }: AppSource): Promise<{ readonly app: unknown }> {
  if (endpoint !== undefined) {
    const declared = declarations().find((each) => each.name === endpoint) as
      | { readonly settings?: { readonly app?: unknown } }
      | undefined;
    if (declared === undefined) throw new Error(`the file did not declare the endpoint ${endpoint} when it ran`);
    return { app: await settled(declared.settings?.app) };
  }
  const exported = module as Readonly<Record<string, unknown>>;
  if (name !== '') {
    if (exported[name] === undefined) throw new Error(`the file exports no ${name}`);
    return { app: await settled(exported[name]) };
  }
  const found = exported['default'] ?? exported['app'];
  // The exports object of a CommonJS file that exports nothing, or its names.
  const isPlain = typeof found === 'object' && found !== null && Object.getPrototypeOf(found) === Object.prototype;
  const isNames = isPlain && !['fetch', 'listen', 'callback'].some((method) => has(found, method));
  return { app: await settled(isNames ? (found as Readonly<Record<string, unknown>>)['app'] : (found ?? undefined)) };
}

async function settled(value: unknown): Promise<unknown> {
  return value instanceof Promise ? ((await value) as unknown) : value;
}

/** The kinds of applications, from the most particular one. @throws TypeError for anything else. */
async function listen(app: unknown, port: number, host: string): Promise<Serving> {
  if (isServer(app)) return listening(app, port, host);
  // Fastify; a NestJS application.
  if (has(app, 'listen', 'inject')) {
    await (app['listen'] as (options: object) => Promise<unknown>).call(app, { port, host });
    return app as unknown as Serving;
  }
  if (has(app, 'listen', 'getHttpAdapter')) {
    await (app['listen'] as (port: number, host: string) => Promise<unknown>).call(app, port, host);
    return app as unknown as Serving;
  }
  // Koa.
  if (has(app, 'callback', 'use')) return listening(createServer((app['callback'] as () => RequestListener).call(app)), port, host);
  if (isFetchApp(app)) return listening(createServer(fetchListener(app)), port, host);
  // Express, Connect, and a listener of http.createServer.
  if (typeof app === 'function') return listening(createServer(app as RequestListener), port, host);
  throw new TypeError(
    `app must be an application of Express, Fastify, Hono or Koa, a server of node:http or a request listener, not ${typeof app}`,
  );
}

async function listening(server: Server, port: number, host: string): Promise<Serving> {
  if (!server.listening) {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, () => {
        server.off('error', reject);
        resolve();
      });
    });
  }
  return {
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

function isServer(app: unknown): app is Server {
  return has(app, 'listen', 'closeIdleConnections');
}

function isFetchApp(app: unknown): app is FetchApp {
  return has(app, 'fetch');
}

function has(app: unknown, ...methods: readonly string[]): app is Readonly<Record<string, unknown>> {
  if (app === null || (typeof app !== 'object' && typeof app !== 'function')) return false;
  return methods.every((name) => typeof (app as Readonly<Record<string, unknown>>)[name] === 'function');
}

/** Returns the ports on which this process listens, as they come. */
function watchListening(): ReadonlySet<number> {
  const ports = new Set<number>();
  subscribe('tracing:net.server.listen:asyncStart', (message) => {
    const { options, server } = message as {
      readonly options?: { readonly port?: number | string };
      readonly server?: { address?: () => AddressInfo | string | null };
    };
    const address = server?.address?.();
    const port = Number(options?.port ?? (typeof address === 'object' ? address?.port : 0));
    if (port > 0) ports.add(port);
  });
  return ports;
}

function fail(error: unknown): void {
  process.stderr.write(`${inspect(error)}\n`);
  process.exit(1);
}
