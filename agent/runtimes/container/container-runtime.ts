/**
 * The `container` runtime: one container per worker, from any image. Our own bootstrap runs in it
 * where the release has functions (Python or Node, as the function's module is written); an image that
 * speaks the worker protocol itself is carried for the foreign workers, one that listens itself for the
 * workers of load-balanced endpoints.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { CapstanError } from '../../../proto/errors.ts';
import { baseImageOf, defaultBaseImage } from '../../../proto/base-images.ts';
import type { WorkerApi } from '../../worker-api/server.ts';
import type { Carry } from '../foreign/carrier.ts';
import { isForeign, type ForeignWorkers } from '../foreign/foreign-workers.ts';
import { notStarted } from '../hosted/host-pool.ts';
import { HostWorker, STOPPED_BY_AGENT } from '../hosted/host-worker.ts';
import { workerEnv } from '../hosted/worker-env.ts';
import { languageOf, type Language } from '../process/language.ts';
import { PYTHON_READS_AT_START } from '../process/process-runtime.ts';
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { ServerWorker } from '../server/server-worker.ts';
import { siteOnHost, type ServerSite } from '../server/site.ts';
import { NODE_READS_AT_START } from '../thread/thread-runtime.ts';
import { ENTRYPOINTS, NEEDS, stageBootstrap } from './bootstrap.ts';
import { ContainerHost } from './container-host.ts';
import type { ContainerOrder, ContainerRules } from './create-request.ts';
import type { ContainerEngine, EngineFacts } from './engine.ts';
import { ForeignContainer } from './foreign-container.ts';
import { ImagePulls } from './image-pull.ts';
import { BOOTSTRAP, BUILD, CHANNEL, HOST_NAME, NODE } from './layout.ts';
import { containerOwner, incarnationName, removeLeftovers } from './leftovers.ts';
import { makeReadable } from './readable.ts';
import type { ContainerDeps } from './worker-container.ts';

/** Where an image that listens itself does so, unless its endpoint's environment says otherwise (WIRE.md section 4). */
const DEFAULT_PORT = 80;

const READS_AT_START: Readonly<Record<Language, RegExp>> = { node: NODE_READS_AT_START, python: PYTHON_READS_AT_START };

/** Which images get a read-only root (CAPSTAN_CONTAINER_READ_ONLY). */
export type ReadOnlyRoots = 'base-images' | 'always' | 'never';

export interface ContainerRuntimeOptions {
  readonly engine: ContainerEngine;
  /** The agent's own folder: sockets and the staged bootstrap lie in it. */
  readonly folder: string;
  /** Name of the node for people, in a label. */
  readonly nodeName: string;
  /** A network of the engine, `host`, `none`, or `auto`: its bridge, else none. */
  readonly network: string;
  readonly readOnlyRoots: ReadOnlyRoots;
  readonly rules: ContainerRules;
  /** File of registry credentials, if any. */
  readonly registryAuthFile: string | undefined;
  readonly log: Logger;
  /** Workers that bring their own program; none without. */
  readonly foreign?: { readonly workers: ForeignWorkers; readonly api: WorkerApi };
}

interface Live {
  kill(why?: string): void;
  readonly exited: Promise<void>;
}

export class ContainerRuntime implements Runtime {
  readonly name = 'container';
  readonly #options: ContainerRuntimeOptions;
  readonly #deps: ContainerDeps;
  /** By start (LABELS.start). */
  readonly #live = new Map<string, Live>();
  #owner: Promise<string> | undefined;
  #staged: Promise<void> | undefined;
  #sweep: Promise<void> | undefined;
  #isSweepDue = true;

  constructor(options: ContainerRuntimeOptions) {
    this.#options = options;
    const { engine, rules, registryAuthFile } = options;
    this.#deps = {
      engine,
      rules,
      pulls: new ImagePulls(engine, registryAuthFile),
      onLeftBehind: () => (this.#isSweepDue = true),
    };
  }

  /** Asks the engine what it has; where it has come (back), clears what an earlier agent left there. Never rejects. */
  async probe(): Promise<EngineFacts | undefined> {
    const facts = await this.#options.engine.probe();
    if (facts === undefined) this.#isSweepDue = true;
    else if (this.#isSweepDue) void this.#clear();
    return facts;
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    if (spec.servesHttp === true && isForeign(spec)) return this.#startServer(spec, events);
    if (isForeign(spec)) return this.#startForeign(spec, events);
    const [fn] = spec.functions;
    if (fn === undefined) return notStarted(events, 'the release names no function');
    const language = languageOf(spec.folder, fn.module);
    const env = workerEnv(spec);
    const start = randomUUID();
    const folder = join(this.#options.folder, 'channels', start);
    const host = new ContainerHost(
      {
        deps: this.#deps,
        folder,
        orders: async () => this.#orders(spec, language, env, start, folder),
        memoryBytes: spec.memoryBytes,
        needs: NEEDS[language],
      },
      events,
    );
    this.#keep(start, host);
    return new HostWorker(host, { spec: { ...spec, folder: BUILD }, fn, env, stopTimes: STOPPED_BY_AGENT }, events, () => undefined);
  }

  async close(): Promise<void> {
    await this.#options.foreign?.workers.close();
    const live = [...this.#live.values()];
    for (const each of live) each.kill('the worker was killed');
    await Promise.all(live.map(({ exited }) => exited));
    await this.#sweep;
  }

  /** An image that speaks the worker protocol itself (WIRE.md section 2), with a way to the agent. */
  #startForeign(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const { foreign, network, engine } = this.#options;
    if (foreign === undefined) return notStarted(events, 'this agent serves no workers with a program of their own');
    if (spec.image === '') return notStarted(events, 'the release names no image');
    const carry: Carry = (carried, env, carrierEvents) => {
      const start = randomUUID();
      const order = async (): Promise<ContainerOrder> => {
        const ordered = await this.#foreignOrder(carried, env, start);
        if (ordered.hostAddress !== undefined) await foreign.api.listenAlso(ordered.hostAddress);
        return ordered;
      };
      const made = new ForeignContainer(this.#deps, order, carrierEvents);
      this.#keep(start, made);
      return made;
    };
    const isOnHost = network === 'host' || (network === 'auto' && engine.facts?.bridge === undefined);
    return foreign.workers.start(spec, events, carry, `http://${isOnHost ? '127.0.0.1' : HOST_NAME}:${foreign.api.port}`);
  }

  /** An image that listens itself (WIRE.md section 4). */
  #startServer(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    if (spec.image === '') return notStarted(events, 'the release names no image');
    const worker = new ServerWorker(events);
    worker.launch(spec, { PYTHONUNBUFFERED: '1' }, this.#serverSite(spec.env));
    return worker;
  }

  /** On a network of its own the container has all ports to itself, and the engine lets this host in at others. */
  async #serverSite(env: Readonly<Record<string, string>>): Promise<ServerSite> {
    const start = randomUUID();
    let made: ForeignContainer | undefined;
    const carry =
      (published: readonly number[]): Carry =>
      (spec, variables, events) => {
        const order = async (): Promise<ContainerOrder> => ({ ...(await this.#foreignOrder(spec, variables, start)), published });
        made = new ForeignContainer(this.#deps, order, events);
        this.#keep(start, made);
        return made;
      };
    const network = await this.#network(true);
    if (network === 'host') return siteOnHost(env, carry([]));
    const port = portOf('PORT', env, DEFAULT_PORT);
    const healthPort = portOf('PORT_HEALTH', env, port);
    const hostPort = async (wanted: number): Promise<number> => (await made?.hostPort(wanted)) ?? 0;
    return {
      variables: { PORT: String(port), PORT_HEALTH: String(healthPort) },
      carry: carry([...new Set([port, healthPort])]),
      reach: async () => ({ host: '127.0.0.1', port: await hostPort(port), healthPort: await hostPort(healthPort) }),
    };
  }

  #keep(start: string, made: Live): void {
    this.#live.set(start, made);
    void made.exited.then(() => this.#live.delete(start));
  }

  async #orders(
    spec: WorkerStart,
    language: Language,
    env: Readonly<Record<string, string>>,
    start: string,
    folder: string,
  ): Promise<ContainerOrder[]> {
    const options = this.#options;
    await Promise.all([(this.#staged ??= stageBootstrap(join(options.folder, 'bootstrap'))), makeReadable(spec.folder)]);
    const image = spec.image || defaultBaseImage(language, spec.deviceUuids.length > 0).name;
    const readOnlyRoot = this.#isReadOnly(image);
    const readAtStart = Object.entries(env).filter(([name]) => READS_AT_START[language].test(name));
    const common = {
      ...(await this.#common(spec, start, false)),
      image,
      command: [],
      // All else comes over the channel: what stands here, anyone who may ask the engine can read.
      env: {
        ...(readOnlyRoot ? { HOME: '/tmp' } : {}),
        ...(language === 'python' ? { PYTHONUNBUFFERED: '1' } : {}),
        ...Object.fromEntries(readAtStart),
      },
      mounts: [
        [join(options.folder, 'bootstrap'), BOOTSTRAP],
        [folder, CHANNEL],
        [spec.folder, BUILD],
        ...(language === 'node' ? ([[process.execPath, NODE]] as const) : []),
      ] as const,
      readOnlyRoot,
      // Python's own first process reaps; Node's cannot.
      init: language === 'node' && (options.engine.facts?.hasInit ?? false),
    };
    return ENTRYPOINTS[language].map((entrypoint) => ({ ...common, entrypoint }));
  }

  async #foreignOrder(spec: WorkerStart, env: Readonly<Record<string, string>>, start: string): Promise<ContainerOrder> {
    const { command, image, folder } = spec;
    const common = await this.#common(spec, start, true);
    if (common.network === 'none')
      throw new CapstanError('CONFIG', 'CAPSTAN_CONTAINER_NETWORK is `none`: this worker and the agent could not reach one another');
    if (folder !== '') await makeReadable(folder);
    return {
      ...common,
      image,
      entrypoint: command.length > 0 ? command : undefined,
      command: command.length > 0 ? [] : undefined,
      // Anyone who may ask the engine can read these: such a program has no other way to get them.
      env,
      mounts: folder === '' ? [] : [[folder, BUILD]],
      readOnlyRoot: this.#isReadOnly(image),
      init: this.#options.engine.facts?.hasInit ?? false,
    };
  }

  async #common(
    spec: Pick<WorkerStart, 'workerId' | 'endpointId' | 'deviceUuids' | 'memoryBytes' | 'cpuMillis'>,
    start: string,
    isForeign: boolean,
  ): Promise<Pick<ContainerOrder, 'deviceUuids' | 'memoryBytes' | 'cpuMillis' | 'network' | 'hostAddress' | 'labels'>> {
    const { deviceUuids, memoryBytes, cpuMillis, workerId, endpointId } = spec;
    const network = await this.#network(isForeign);
    const hostAddress = network === 'host' ? undefined : await this.#options.engine.hostAddress(network);
    const labels = {
      agent: await this.#ownerName(),
      incarnation: incarnationName(),
      start,
      node: this.#options.nodeName,
      worker: workerId,
      endpoint: endpointId,
    };
    return { deviceUuids, memoryBytes, cpuMillis, network, hostAddress, labels };
  }

  /** A foreign worker must reach the agent: without a bridge it gets the host's own network. */
  async #network(isForeign: boolean): Promise<string> {
    const { network, engine } = this.#options;
    if (network !== 'auto') return network;
    const facts = engine.facts ?? (await engine.probe());
    return facts?.bridge ?? (isForeign ? 'host' : 'none');
  }

  #isReadOnly(image: string): boolean {
    const { readOnlyRoots } = this.#options;
    return readOnlyRoots === 'always' || (readOnlyRoots === 'base-images' && baseImageOf(image) !== null);
  }

  #ownerName(): Promise<string> {
    return (this.#owner ??= containerOwner(join(this.#options.folder, 'container-owner')));
  }

  /** One sweep at a time; one that fails is due again. */
  async #clear(): Promise<void> {
    if (this.#sweep !== undefined) return;
    this.#isSweepDue = false;
    const { engine, log } = this.#options;
    this.#sweep = this.#ownerName()
      .then((owner) => removeLeftovers(engine, owner, (start) => this.#live.has(start)))
      .then(
        (count) => {
          if (count > 0) log.info({ count }, 'containers without a worker removed');
        },
        () => {
          // The engine is away, or busy with them: the next probe tries again.
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
