/** What the containers of a node are made like: the orders for workers with our bootstrap, and for images with a program of their own. */
import { join } from 'node:path';

import { CapstanError } from '../../../lib/errors.ts';
import { baseImageOf, defaultBaseImage, imageReference } from '../../../lib/base-images.ts';
import { makeReadable } from '../hosted/readable.ts';
import type { Language } from '../process/language.ts';
import { PYTHON_READS_AT_START } from '../process/process-runtime.ts';
import type { WorkerStart } from '../runtime.ts';
import { NODE_READS_AT_START } from '../thread/thread-runtime.ts';
import { ENTRYPOINTS } from './bootstrap.ts';
import type { ContainerSpec } from './create-request.ts';
import type { ContainerEngine } from './engine.ts';
import { BOOTSTRAP, BUILD, CHANNEL, NODE } from './layout.ts';
import { containerOwner, incarnationName } from './leftovers.ts';

const READS_AT_START: Readonly<Record<Language, RegExp>> = { node: NODE_READS_AT_START, python: PYTHON_READS_AT_START };

/** Which images get a read-only root (CAPSTAN_CONTAINER_READ_ONLY). */
export type ReadOnlyRoots = 'base-images' | 'always' | 'never';

export interface ContainerSpecBuilderOptions {
  readonly engine: ContainerEngine;
  /** The agent's own folder: sockets lie in it. */
  readonly folder: string;
  /** The staged bootstrap. */
  readonly bootstrap: string;
  /** Name of the node for people, in a label. */
  readonly nodeName: string;
  /** A network of the engine, `host`, `none`, or `auto`: its bridge, else none. */
  readonly network: string;
  readonly readOnlyRoots: ReadOnlyRoots;
}

/** All that decides what a container of our bootstrap is like, beside whose it is. */
export interface ContainerShape {
  readonly language: Language;
  readonly image: string;
  readonly deviceUuids: readonly string[];
  /** Bytes; 0 for no limit. */
  readonly memoryBytes: number;
  /** Thousandths of a core; 0 for no limit. */
  readonly cpuMillis: number;
}

/** Whose a container is; empty names for a spare. */
export interface ContainerIdentity {
  /** LABELS.start. */
  readonly start: string;
  readonly workerId: string;
  readonly endpointId: string;
}

/** Folders of this machine that a container of our bootstrap gets. */
export interface ContainerFolders {
  readonly channel: string;
  readonly build: string;
}

export class ContainerSpecBuilder {
  readonly #options: ContainerSpecBuilderOptions;
  #owner: Promise<string> | undefined;

  constructor(options: ContainerSpecBuilderOptions) {
    this.#options = options;
  }

  shapeOf({ image, deviceUuids, memoryBytes, cpuMillis }: WorkerStart, language: Language): ContainerShape {
    return { language, image: image || defaultBaseImage(language, deviceUuids.length > 0).name, deviceUuids, memoryBytes, cpuMillis };
  }

  /** Two workers with the same key could have the same container, as far as the engine is now known; absent while it is not. */
  keyOf(shape: ContainerShape): string | undefined {
    const { engine } = this.#options;
    const image = imageReference(shape.image);
    const imageId = engine.facts?.imageIds.get(image);
    return imageId === undefined ? undefined : JSON.stringify([imageId, this.#knownNetwork(false), { ...shape, image }]);
  }

  /** The values of the environment that the language reads before our code could set them. */
  readAtStart(language: Language, env: Readonly<Record<string, string>>): Record<string, string> {
    return Object.fromEntries(Object.entries(env).filter(([name]) => READS_AT_START[language].test(name)));
  }

  /** The name under which this agent's containers are found again. */
  owner(): Promise<string> {
    return (this.#owner ??= containerOwner(join(this.#options.folder, 'container-owner')));
  }

  /** One order for each program that the language may have in the image. `env`: what whoever may ask the engine can read. */
  async forHost(
    shape: ContainerShape,
    identity: ContainerIdentity,
    folders: ContainerFolders,
    env: Readonly<Record<string, string>>,
  ): Promise<ContainerSpec[]> {
    const { engine, bootstrap } = this.#options;
    const { language, image } = shape;
    const [common] = await Promise.all([this.#common(shape, identity, false), makeReadable(folders.build)]);
    const readOnlyRoot = this.#isReadOnly(image);
    const order = {
      ...common,
      image,
      command: [],
      env: {
        ...(readOnlyRoot ? { HOME: '/tmp' } : {}),
        ...(language === 'python' ? { PYTHONUNBUFFERED: '1' } : {}),
        ...env,
      },
      mounts: [
        [bootstrap, BOOTSTRAP],
        [folders.channel, CHANNEL],
        [folders.build, BUILD],
        ...(language === 'node' ? ([[process.execPath, NODE]] as const) : []),
      ] as const,
      readOnlyRoot,
      // Python's own first process reaps; Node's cannot.
      init: language === 'node' && (engine.facts?.hasInit ?? false),
    };
    return ENTRYPOINTS[language].map((entrypoint) => ({ ...order, entrypoint }));
  }

  /** The image's own program, on a network where it and the agent reach one another. Rejects with CONFIG where there may be none. */
  async forForeign(spec: WorkerStart, env: Readonly<Record<string, string>>, start: string): Promise<ContainerSpec> {
    const { command, image, folder, workerId, endpointId } = spec;
    const common = await this.#common(spec, { start, workerId, endpointId }, true);
    if (common.network === 'none')
      throw new CapstanError('CONFIG', 'CAPSTAN_CONTAINER_NETWORK is `none`: this worker and the agent cannot reach each other');
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

  /** Foreign workers are in the host's own network. */
  get isForeignOnHost(): boolean {
    return this.#knownNetwork(true) === 'host';
  }

  /** The network of a container that is started now. A foreign worker must reach the agent: without a bridge it gets the host's own. */
  async network(isForeign: boolean): Promise<string> {
    if (this.#options.engine.facts === undefined) await this.#options.engine.probe();
    return this.#knownNetwork(isForeign);
  }

  async #common(
    { deviceUuids, memoryBytes, cpuMillis }: Pick<WorkerStart, 'deviceUuids' | 'memoryBytes' | 'cpuMillis'>,
    { start, workerId, endpointId }: ContainerIdentity,
    isForeign: boolean,
  ): Promise<Pick<ContainerSpec, 'deviceUuids' | 'memoryBytes' | 'cpuMillis' | 'network' | 'hostAddress' | 'labels'>> {
    const { engine, nodeName } = this.#options;
    const network = await this.network(isForeign);
    const hostAddress = network === 'host' ? undefined : await engine.hostAddress(network);
    const incarnation = incarnationName();
    const labels = { agent: await this.owner(), incarnation, start, node: nodeName, worker: workerId, endpoint: endpointId };
    return { deviceUuids, memoryBytes, cpuMillis, network, hostAddress, labels };
  }

  #knownNetwork(isForeign: boolean): string {
    const { network, engine } = this.#options;
    if (network !== 'auto') return network;
    return engine.facts?.bridge ?? (isForeign ? 'host' : 'none');
  }

  #isReadOnly(image: string): boolean {
    const { readOnlyRoots } = this.#options;
    return readOnlyRoots === 'always' || (readOnlyRoots === 'base-images' && baseImageOf(image) !== null);
  }
}
