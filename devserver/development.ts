/** The parts of the development server, connected: the project, its workers, its queue, and what the terminal shows. */
import { totalmem } from 'node:os';
import type { Readable } from 'node:stream';

import { errorTable } from '../lib/errors.ts';
import { messageOf } from '../lib/to-error.ts';
import { endpointNotFound } from '../lib/job-errors.ts';
import type { DeclaredEndpoint } from '../compiler/discovery/declared.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { DEBUG_MODULES, DebugSessions } from './debug-sessions.ts';
import { excerptOf } from './excerpt.ts';
import { openDevQueue, type DevQueue, type QueueEndpoint } from './queue.ts';
import { commandOf } from './handlers.ts';
import { missingImportHint } from './missing-import.ts';
import { DevPackages } from './packages.ts';
import { printer } from './printer.ts';
import { problemText } from './problem.ts';
import { Project, type Reading } from './project.ts';
import { serveProject, type AccessLine, type Address, type DevServer } from './server.ts';

/** Most bytes of jobs' bodies, and at most a quarter of the memory: they are deleted half an hour after the jobs end. */
const MAX_BODY_BYTES = 4_000_000_000;

export interface DevelopmentOptions {
  readonly folder: string;
  /** Folder of the tool's cache, absolute. */
  readonly cacheDir: string;
  /** Port of debuggers, 0 for a free one each; undefined for none. */
  readonly inspect: number | undefined;
  /** What is typed. */
  readonly input: Readable;
  /** For files of the tool in the project. */
  readonly toolFolder: string;
  /** Variables of the shell and of `.env`, as they are now. */
  readonly variables: () => Readonly<Record<string, string | undefined>>;
  readonly terminal: Terminal;
}

export interface Development {
  /** @throws the system's Error when the port is in use. */
  serve(address: Address): Promise<DevServer>;
  /** Ends the workers; resolves when no process is left. */
  close(): Promise<void>;
}

/** Reads the project and starts its workers. */
export async function startDevelopment(options: DevelopmentOptions): Promise<Development> {
  const { folder, toolFolder, cacheDir, variables, terminal, inspect, input } = options;
  const [{ LocalWorkers, openLocalEnvironment }, { checkBody, createQueueApi }] = await Promise.all([
    import('../agent/local-workers.ts'),
    import('../gateway/assembly/queue-api.ts'),
  ]);
  /** Empty while the sources are read for the first time. */
  const opened: { queue?: DevQueue } = {};
  const { printed, print } = printer((text) => terminal.line(text));
  const workers = await LocalWorkers.open({
    folder,
    own: toolFolder,
    onLog: (endpoint, { text }) => print(endpoint, text),
  });
  const events = {
    read: (reading: Reading) => {
      showReading(terminal, reading);
      opened.queue?.deploy(queueEndpoints());
    },
    reloaded: (changed: readonly string[], ms: number) => terminal.done(`reloaded ${listed(changed)} in ${Math.round(ms)} ms`),
    loadFailed: (endpoint: DeclaredEndpoint, message: string) =>
      void showLoadFailure(terminal, { folder, endpoint, message, log: printed(endpoint.name) }),
  };
  const sessions = await DebugSessions.open({
    input,
    write: (text) => terminal.raw(text),
    line: (text) => terminal.step(text),
  });
  const debug = { modules: DEBUG_MODULES, socket: sessions.path, debugpy: inspect };
  const packages: DevPackages = new DevPackages({
    ...{ folder, cacheDir, variables, workers, terminal, debug, inspect, openPython: openLocalEnvironment },
    marks: () => project.marksOf(/(^|\/)(requirements[^/]*\.txt|[^/]*\.(toml|lock)|package(-lock)?\.json)$/),
  });
  const project: Project = new Project({
    folder,
    variables,
    workers,
    events,
    prepare: (application) => packages.prepare(application),
    commandOf: (endpoint, { rules, pythonRoots }) => commandOf(folder, endpoint, { ...packages.programs, rules, pythonRoots }),
  });
  const queueEndpoints = (): QueueEndpoint[] =>
    project.endpoints.filter(isQueue).map(({ name, file, settings: { maxConcurrency, executionTimeoutMs } }) => ({
      ...{ name, maxConcurrency, executionTimeoutMs },
      isBroken: project.problemOf(file) !== undefined,
    }));
  // The sources are read meanwhile.
  const started = project.start();
  started.catch(() => undefined);
  const queue = await openDevQueue({
    workerOf(name) {
      const found = project.endpoint(name);
      if (found === undefined || !isQueue(found)) throw endpointNotFound(name);
      return project.worker(found);
    },
    onProgress: (endpoint, text) => terminal.line(`${endpoint} | progress: ${text}`),
    onFailed(endpoint, job, error) {
      terminal.warn(`${endpoint}: job ${job} ${error}`);
      showMissingImport(terminal, error);
    },
    onWebhook: (job) => terminal.warn(`job ${job}: the development server does not call webhooks`),
    isDebugged: (endpoint) => inspect !== undefined || sessions.holds(endpoint),
    bodyBytes: Math.min(MAX_BODY_BYTES, Math.floor(totalmem() / 4)),
    onFault: (message) => terminal.fail(`the development server failed: ${message}`),
  });
  opened.queue = queue;
  const queueApi = await createQueueApi({
    queue,
    kindOf(name) {
      const found = project.endpoint(name);
      if (found === undefined) return undefined;
      return isQueue(found) ? 'queue' : 'load-balanced';
    },
    log: { warn: logged, error: logged },
  });
  function logged(fields: unknown, message?: string): void {
    const error = typeof fields === 'object' && fields !== null && 'err' in fields ? fields.err : undefined;
    terminal.fail(`the development server failed: ${message ?? ''} ${error === undefined ? '' : messageOf(error)}`.trim());
  }
  await started;
  queue.deploy(queueEndpoints());
  return {
    serve: (address) =>
      serveProject(
        {
          folder,
          project,
          queue,
          queueApi,
          printed,
          typeViolation: (headers) => {
            const error = checkBody({ headers, method: 'POST' }, Number.POSITIVE_INFINITY);
            return error === null ? null : { status: errorTable[error.code].http, message: error.message };
          },
          onRequest: (line) => terminal.line(accessText(line)),
        },
        address,
      ),
    async close() {
      await queue.close();
      await Promise.all([project.close(), sessions.close()]);
    },
  };
}

function isQueue({ functions }: DeclaredEndpoint): boolean {
  return functions.length > 0 && functions.every(({ route }) => route === null);
}

/** Routes when they are first read, problems each time. */
function showReading(terminal: Terminal, { routes, servers, problems, changed }: Reading): void {
  const paths = [...routes.map(({ method, path }) => `${method} ${path}`), ...servers.map(({ name }) => `/lb/${name}/`)];
  if (changed.length === 0 && paths.length > 0) terminal.done(`serves ${paths.join(', ')}`);
  for (const problem of problems) {
    terminal.fail(problemText(problem));
    terminal.hint(problem.hint);
  }
}

interface LoadFailure {
  readonly folder: string;
  readonly endpoint: DeclaredEndpoint;
  readonly message: string;
  /** What its worker printed last. */
  readonly log: readonly string[];
}

async function showLoadFailure(terminal: Terminal, { folder, endpoint, message, log }: LoadFailure): Promise<void> {
  const found = await excerptOf(folder, log.join('\n'));
  const place = found === null ? endpoint.file : `${found.file}:${found.line}`;
  terminal.fail([`${place}: ${endpoint.name} failed to load: ${message}`, ...(found?.lines ?? [])].join('\n'));
  showMissingImport(terminal, message);
}

function showMissingImport(terminal: Terminal, error: string): void {
  const hint = missingImportHint(error);
  if (hint !== undefined) terminal.hint(hint);
}

function accessText({ method, path, status, ms }: AccessLine): string {
  return `${method} ${path} ${status} ${Math.round(ms)} ms`;
}

const MAX_NAMED = 3;

/** `api.py, web.ts and 2 more`. */
function listed(paths: readonly string[]): string {
  const more = paths.length - MAX_NAMED;
  return more > 0 ? `${paths.slice(0, MAX_NAMED).join(', ')} and ${more} more` : paths.join(', ');
}
