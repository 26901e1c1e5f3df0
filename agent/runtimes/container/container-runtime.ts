/**
 * The `container` runtime: one container per worker, from any image. Our bootstrap runs in it for releases with
 * functions (Python or Node, depending on the function's module). An image that speaks the worker protocol itself is
 * launched for the foreign workers, and an image with its own server for the workers of load-balanced endpoints.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { CapstanError } from '../../../lib/errors.ts';
import { isErrno } from '../../../lib/to-error.ts';
import type { ContainerFacts } from '../../inventory/inventory.ts';
import type { WorkerApi } from '../../worker-api/server.ts';
import type { Launcher } from '../foreign/launcher.ts';
import { isForeign, type ForeignWorkers } from '../foreign/foreign-workers.ts';
import { notStarted } from '../hosted/host-pool.ts';
import { HostWorker, STOPPED_BY_AGENT } from '../hosted/host-worker.ts';
import { workerEnv } from '../hosted/worker-env.ts';
import { GpuView, viewCommand, type Look } from '../gpu-view.ts';
import { languageOf } from '../process/language.ts';
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { ServerWorker } from '../server/server-worker.ts';
import { siteOnHost, type ServerSite } from '../server/site.ts';
import { NEEDS } from './bootstrap.ts';
import { ContainerHost } from './container-host.ts';
import type { ContainerSpec, ContainerRules } from './create-request.ts';
import { ForeignContainer } from './foreign-container.ts';
import type { RuntimeKind } from './engine.ts';
import { ImagePulls } from './image-pull.ts';
import { BUILD, HOST_NAME, WORK } from './layout.ts';
import { removeFolders, removeLeftovers } from './leftovers.ts';
import { ContainerSpares, type SpareLimits } from './spares.ts';
import type { ContainerDeps } from './worker-container.ts';
import { ContainerSpecBuilder, type ContainerShape, type ContainerSpecBuilderOptions } from './container-spec.ts';

/** Default port of an image with its own server, unless the endpoint's environment sets another. */
const DEFAULT_PORT = 80;

export interface ContainerRuntimeOptions extends ContainerSpecBuilderOptions {
  readonly rules: ContainerRules;
  readonly spares: SpareLimits;
  /** File of registry credentials, if any. */
  readonly registryAuthFile: string | undefined;
  readonly log: Logger;
  /** Workers that bring their own program; absent: unsupported. */
  readonly foreign?: { readonly workers: ForeignWorkers; readonly api: WorkerApi };
}

/** A spare's image was present a moment ago; if it is gone, it is not pulled for the spare. */
const NO_PULLS: ContainerDeps['pulls'] = {
  pull: (image) => Promise.reject(new CapstanError('NOT_FOUND', `${image}: no longer in the engine`)),
};
const NO_EVENTS = { preparing() {}, startFailed() {} };
const NOBODY = { workerId: '', endpointId: '' };

const VIEW = viewCommand();

/** Parent of the channels' folders, which are named by start. */
const CHANNELS = 'channels';

interface Live {
  kill(why?: string): void;
  look(command: readonly string[], limitMs: number): Promise<Look | undefined>;
  readonly exited: Promise<void>;
}

interface HostLaunch {
  readonly deps: ContainerDeps;
  readonly shape: ContainerShape;
  /** Folder of its channel. */
  readonly folder: string;
  readonly orders: () => Promise<ContainerSpec[]>;
  readonly events: Pick<WorkerEvents, 'preparing' | 'startFailed'>;
}

export class ContainerRuntime implements Runtime {
  readonly name = 'container';
  readonly #options: ContainerRuntimeOptions;
  readonly #deps: ContainerDeps;
  readonly #orders: ContainerSpecBuilder;
  readonly #spares: ContainerSpares;
  /** By start (LABELS.start). */
  readonly #live = new Map<string, Live>();
  readonly #gpus = new GpuView();
  #sweep: Promise<void> | undefined;
  #isSweepDue = true;
  #level: RuntimeKind = 'container';

  constructor(options: ContainerRuntimeOptions) {
    this.#options = options;
    const { engine, rules, registryAuthFile } = options;
    this.#deps = {
      engine,
      rules,
      pulls: new ImagePulls(engine, registryAuthFile),
      hasOwnKernel: () => this.#level === 'gvisor',
      onLeftBehind: () => (this.#isSweepDue = true),
    };
    this.#orders = new ContainerSpecBuilder(options);
    this.#spares = new ContainerSpares({
      limits: options.spares,
      folder: join(options.folder, 'spares'),
      keyOf: (shape) => this.#orders.keyOf(shape),
      launch: (shape, start, build) => this.#launchSpare(shape, start, build),
      log: options.log,
    });
  }

  /**
   * Asks the engine for its capabilities; when the engine is (back) up, removes leftovers of an earlier agent. Never
   * rejects.
   */
  async probe(): Promise<ContainerFacts | undefined> {
    const { engine, rules, outboundNetwork } = this.#options;
    const facts = await engine.probe();
    if (facts === undefined) this.#isSweepDue = true;
    else if (this.#isSweepDue) void this.#clear();
    this.#spares.converge();
    if (facts === undefined) return undefined;
    const level = facts.runtimes.get(rules.runtime ?? facts.defaultRuntime) ?? 'container';
    this.#level = level;
    // The engine's bridge is no `outbound`: it reaches private addresses.
    return { ...facts, level, networks: outboundNetwork === undefined ? ['host', 'none'] : ['host', 'outbound', 'none'] };
  }

  /** Containers that wait for a worker. */
  get spares(): number {
    return this.#spares.ready;
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    if (spec.servesHttp === true && isForeign(spec)) return this.#startServer(spec, events);
    if (isForeign(spec)) return this.#startForeign(spec, events);
    const [fn] = spec.functions;
    if (fn === undefined) return notStarted(events, 'the release has no function');
    const language = languageOf(spec.folder, fn.module);
    const env = workerEnv(spec);
    const shape = this.#orders.shapeOf(spec, language);
    const readAtStart = this.#orders.readAtStart(language, env);
    const isPlain = Object.keys(readAtStart).length === 0;
    const used = (): void => {
      if (isPlain) this.#spares.used(shape, spec.folder);
    };
    const host = (isPlain ? this.#takeSpare(spec, shape) : undefined) ?? this.#launch(spec, shape, readAtStart, events);
    return new HostWorker(host, { spec: { ...spec, folder: BUILD, workFolder: WORK }, fn, env, stopTimes: STOPPED_BY_AGENT }, events, used);
  }

  gpuProblem(workerId: string): Promise<string | undefined> {
    return this.#gpus.problemOf(workerId);
  }

  async close(): Promise<void> {
    await this.#spares.close();
    await this.#options.foreign?.workers.close();
    const live = [...this.#live.values()];
    for (const each of live) each.kill('the worker was killed');
    await Promise.all(live.map(({ exited }) => exited));
    await this.#sweep;
  }

  #launch(
    spec: WorkerStart,
    shape: ContainerShape,
    readAtStart: Readonly<Record<string, string>>,
    events: Pick<WorkerEvents, 'preparing' | 'startFailed'>,
  ): ContainerHost {
    const { workerId, endpointId } = spec;
    const start = randomUUID();
    const channel = join(this.#options.folder, CHANNELS, start);
    const orders = (): Promise<ContainerSpec[]> =>
      this.#orders.forHost(shape, { start, workerId, endpointId }, { channel, build: spec.folder }, readAtStart);
    return this.#viewed(workerId, this.#host(start, { deps: this.#deps, shape, folder: channel, orders, events }));
  }

  #launchSpare(shape: ContainerShape, start: string, build: string): ContainerHost {
    const channel = join(this.#options.folder, CHANNELS, start);
    const orders = (): Promise<ContainerSpec[]> => this.#orders.forHost(shape, { start, ...NOBODY }, { channel, build }, {});
    return this.#host(start, { deps: { ...this.#deps, pulls: NO_PULLS }, shape, folder: channel, orders, events: NO_EVENTS });
  }

  #host(start: string, { deps, shape, folder, orders, events }: HostLaunch): ContainerHost {
    const host = new ContainerHost({ deps, folder, orders, memoryBytes: shape.memoryBytes, needs: NEEDS[shape.language] }, events);
    this.#keep(start, host);
    return host;
  }

  #takeSpare({ workerId, folder }: WorkerStart, shape: ContainerShape): ContainerHost | undefined {
    const taken = this.#spares.take(shape, folder);
    if (taken === undefined) return undefined;
    const { host, start, filled } = taken;
    host.hold(filled);
    // Its labels are those from before it had a worker.
    host.rename(`capstan-${workerId}-${start.slice(0, 8)}`);
    return this.#viewed(workerId, host);
  }

  /** An image that speaks the worker protocol itself and can reach the agent. */
  #startForeign(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const { foreign } = this.#options;
    if (foreign === undefined) return notStarted(events, 'this agent does not run foreign workers');
    if (spec.image === '') return notStarted(events, 'the release has no image');
    const { api } = foreign;
    const launcher: Launcher = (launched, env, processEvents) => {
      const start = randomUUID();
      let address: string | undefined;
      const order = async (): Promise<ContainerSpec> => {
        const ordered = await this.#orders.forForeign(launched, env, start);
        address = ordered.hostAddress;
        // Podman creates its bridge with the first container on it.
        if (address !== undefined) await api.listenAlso(address).catch(unlessNotThere);
        return ordered;
      };
      const started = (): void => {
        if (address !== undefined)
          void api.listenAlso(address).catch((error: unknown) => made.kill(`the worker cannot reach this agent: ${String(error)}`));
        processEvents.started();
      };
      const made = new ForeignContainer(this.#deps, order, { ...processEvents, started }, launched.reading);
      this.#keep(start, made);
      return this.#viewed(spec.workerId, made);
    };
    return foreign.workers.start(
      spec,
      events,
      launcher,
      `http://${this.#orders.isForeignOnHost(spec.network) ? '127.0.0.1' : HOST_NAME}:${api.port}`,
    );
  }

  /** An image with its own server. */
  #startServer(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    if (spec.image === '') return notStarted(events, 'the release has no image');
    const worker = new ServerWorker(events);
    worker.launch(spec, { PYTHONUNBUFFERED: '1' }, this.#serverSite(spec));
    return worker;
  }

  /**
   * On a separate network the container has all ports to itself, and the engine publishes them to this host at other
   * ports.
   */
  async #serverSite({ env, network: wanted }: WorkerStart): Promise<ServerSite> {
    const start = randomUUID();
    let made: ForeignContainer | undefined;
    const launcher =
      (published: readonly number[]): Launcher =>
      (spec, variables, events) => {
        const order = async (): Promise<ContainerSpec> => ({ ...(await this.#orders.forForeign(spec, variables, start)), published });
        made = new ForeignContainer(this.#deps, order, events, spec.reading);
        this.#keep(start, made);
        return this.#viewed(spec.workerId, made);
      };
    const network = await this.#orders.network(wanted, true);
    if (network === 'host') return siteOnHost(env, BUILD, launcher([]));
    const port = portOf('PORT', env, DEFAULT_PORT);
    const healthPort = portOf('PORT_HEALTH', env, port);
    const hostPort = async (wanted: number): Promise<number> => (await made?.hostPort(wanted)) ?? 0;
    return {
      variables: { PORT: String(port), PORT_HEALTH: String(healthPort), CAPSTAN_HOST: '0.0.0.0', CAPSTAN_BUILD: BUILD },
      launcher: launcher([...new Set([port, healthPort])]),
      reach: async () => ({ host: '127.0.0.1', port: await hostPort(port), healthPort: await hostPort(healthPort) }),
    };
  }

  /** Lets the GPUs of a worker be looked at from inside of its container, which is returned. */
  #viewed<T extends Live>(workerId: string, made: T): T {
    this.#gpus.keep(workerId, { look: (limitMs) => made.look(VIEW, limitMs), exited: made.exited });
    return made;
  }

  #keep(start: string, made: Live): void {
    this.#live.set(start, made);
    void made.exited.then(() => this.#live.delete(start));
  }

  /** Runs one sweep at a time; a failed sweep is repeated. */
  async #clear(): Promise<void> {
    if (this.#sweep !== undefined) return;
    this.#isSweepDue = false;
    const { engine, folder, log } = this.#options;
    const isLive = (start: string): boolean => this.#live.has(start);
    this.#sweep = removeFolders(join(folder, CHANNELS), isLive)
      .then(() => this.#orders.owner())
      .then((owner) => removeLeftovers(engine, owner, isLive))
      .then(
        (count) => {
          if (count > 0) log.info({ count }, 'orphaned containers removed');
        },
        () => {
          // The engine is unavailable or busy with these containers: the next probe retries.
          this.#isSweepDue = true;
        },
      )
      .finally(() => (this.#sweep = undefined));
    await this.#sweep;
  }
}

function portOf(name: string, env: Readonly<Record<string, string>>, byDefault: number): number {
  const text = env[name];
  if (text === undefined) return byDefault;
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new CapstanError('INVALID_ARGUMENT', `env.${name}: must be a port, 1 to 65535`);
}

/** No interface has the address yet; any other error is rethrown. */
function unlessNotThere(error: unknown): void {
  if (!isErrno(error, 'EADDRNOTAVAIL')) throw error;
}
