/** Builds the container specs of a node: for workers with our bootstrap, and for images with a program of their own. */
import { join } from 'node:path';

import { CapstanError } from '../../../lib/errors.ts';
import { baseImageOf, defaultBaseImage, imageReference } from '../../../lib/base-images.ts';
import type { WorkerNetwork } from '../../../lib/isolation.ts';
import { makeReadable } from '../readable.ts';
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

/** User of containers of base images, whose files are not theirs: root without capabilities would still own the files of root. */
const WORKER_USER = '60000:60000';

/** Which images get a read-only root file system (CAPSTAN_CONTAINER_READ_ONLY). */
export type ReadOnlyRoots = 'base-images' | 'always' | 'never';

export interface ContainerSpecBuilderOptions {
  readonly engine: ContainerEngine;
  /** The agent's own folder, which holds the sockets. */
  readonly folder: string;
  readonly bootstrap: string;
  /** Readable name of the node, used in a label. */
  readonly nodeName: string;
  /** A network of the engine, `host`, `none`, or `auto`: the engine's bridge, otherwise none. */
  readonly network: string;
  /** Network of workers with the network `outbound`; absent: as of others, but never the host's. */
  readonly outboundNetwork?: string | undefined;
  readonly readOnlyRoots: ReadOnlyRoots;
}

/** Everything that determines a container of our bootstrap, apart from its owner. */
export interface ContainerShape {
  readonly language: Language;
  readonly image: string;
  readonly deviceUuids: readonly string[];
  /** Bytes; 0 for no limit. */
  readonly memoryBytes: number;
  /** Thousandths of a core; 0 for no limit. */
  readonly cpuMillis: number;
  readonly network: WorkerNetwork;
}

/** Owner of a container; empty names for a spare. */
export interface ContainerIdentity {
  /** LABELS.start. */
  readonly start: string;
  readonly workerId: string;
  readonly endpointId: string;
}

/** Folders of this host that are mounted in a container of our bootstrap. */
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

  shapeOf({ image, deviceUuids, memoryBytes, cpuMillis, network = 'host' }: WorkerStart, language: Language): ContainerShape {
    const named = image || defaultBaseImage(language, deviceUuids.length > 0).name;
    return { language, image: named, deviceUuids, memoryBytes, cpuMillis, network };
  }

  /**
   * Two workers with the same key can use the same container, given the engine's current capabilities; absent while
   * these are unknown.
   */
  keyOf(shape: ContainerShape): string | undefined {
    const { engine } = this.#options;
    const image = imageReference(shape.image);
    const imageId = engine.facts?.imageIds.get(image);
    return imageId === undefined ? undefined : JSON.stringify([imageId, this.#knownNetwork(shape.network, false), { ...shape, image }]);
  }

  /** Environment values that the language reads before our code could set them. */
  readAtStart(language: Language, env: Readonly<Record<string, string>>): Record<string, string> {
    return Object.fromEntries(Object.entries(env).filter(([name]) => READS_AT_START[language].test(name)));
  }

  /** The name under which this agent finds its containers again. */
  owner(): Promise<string> {
    return (this.#owner ??= containerOwner(join(this.#options.folder, 'container-owner')));
  }

  /**
   * Returns one spec for each program that the language may have in the image. `env`: readable by everyone with access
   * to the engine.
   */
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
        ...(readOnlyRoot || userOf(image) !== undefined ? { HOME: '/tmp' } : {}),
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
      user: userOf(image),
      // Python's own first process reaps children; Node's cannot.
      init: language === 'node' && (engine.facts?.hasInit ?? false),
    };
    return ENTRYPOINTS[language].map((entrypoint) => ({ ...order, entrypoint }));
  }

  /**
   * Returns the spec of the image's own program, on a network where it and the agent can reach each other. Rejects with
   * CONFIG when no such network is allowed.
   */
  async forForeign(spec: WorkerStart, env: Readonly<Record<string, string>>, start: string): Promise<ContainerSpec> {
    const { command, image, folder, workerId, endpointId } = spec;
    const common = await this.#common(spec, { start, workerId, endpointId }, true);
    if (common.network === 'none') {
      const why = spec.network === 'none' ? "the worker's network is `none`" : 'CAPSTAN_CONTAINER_NETWORK is `none`';
      throw new CapstanError('CONFIG', `${why}: this worker and the agent cannot reach each other`);
    }
    if (folder !== '') await makeReadable(folder);
    return {
      ...common,
      image,
      entrypoint: command.length > 0 ? command : undefined,
      command: command.length > 0 ? [] : undefined,
      // Everyone with access to the engine can read these values: such a program has no other way to receive them.
      env,
      mounts: folder === '' ? [] : [[folder, BUILD]],
      readOnlyRoot: this.#isReadOnly(image),
      user: userOf(image),
      init: this.#options.engine.facts?.hasInit ?? false,
    };
  }

  /** A foreign worker of this kind uses the host's network. */
  isForeignOnHost(network: WorkerNetwork | undefined): boolean {
    return this.#knownNetwork(network, true) === 'host';
  }

  /**
   * Returns the network for a new container. A foreign worker must reach the agent: without a bridge it gets the host's
   * network. Rejects with CONFIG when a worker that may not have the host's network would get it.
   */
  async network(wanted: WorkerNetwork | undefined, isForeign: boolean): Promise<string> {
    if (this.#options.engine.facts === undefined) await this.#options.engine.probe();
    const network = this.#knownNetwork(wanted, isForeign);
    if (wanted !== 'outbound' || network !== 'host') return network;
    throw new CapstanError(
      'CONFIG',
      "this worker's network is `outbound`, but this node offers only the host's: set CAPSTAN_CONTAINER_OUTBOUND_NETWORK to a network of the engine",
      {
        field: 'network',
      },
    );
  }

  async #common(
    { deviceUuids, memoryBytes, cpuMillis, network: wanted }: Pick<WorkerStart, 'deviceUuids' | 'memoryBytes' | 'cpuMillis' | 'network'>,
    { start, workerId, endpointId }: ContainerIdentity,
    isForeign: boolean,
  ): Promise<Pick<ContainerSpec, 'deviceUuids' | 'memoryBytes' | 'cpuMillis' | 'network' | 'hostAddress' | 'labels'>> {
    const { engine, nodeName } = this.#options;
    const network = await this.network(wanted, isForeign);
    const hostAddress = network === 'host' ? undefined : await engine.hostAddress(network);
    const incarnation = incarnationName();
    const labels = { agent: await this.owner(), incarnation, start, node: nodeName, worker: workerId, endpoint: endpointId };
    return { deviceUuids, memoryBytes, cpuMillis, network, hostAddress, labels };
  }

  /** `host` is what the operator gives to containers: no more than before a worker could ask for less. */
  #knownNetwork(wanted: WorkerNetwork | undefined, isForeign: boolean): string {
    const { network, outboundNetwork, engine } = this.#options;
    if (wanted === 'none') return 'none';
    if (wanted === 'outbound' && outboundNetwork !== undefined) return outboundNetwork;
    if (network !== 'auto') return network;
    return engine.facts?.bridge ?? (isForeign ? 'host' : 'none');
  }

  #isReadOnly(image: string): boolean {
    const { readOnlyRoots } = this.#options;
    return readOnlyRoots === 'always' || (readOnlyRoots === 'base-images' && baseImageOf(image) !== null);
  }
}

/** An image of a user's own decides by itself: its programs may need root. */
function userOf(image: string): string | undefined {
  return baseImageOf(image) === null ? undefined : WORKER_USER;
}
