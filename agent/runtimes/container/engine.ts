/** The container engine of this host, over the Docker Engine API: Docker's own, or Podman's of the same shape. */
import type Docker from 'dockerode';

import { CapstanError } from '../../../proto/errors.ts';
import { baseImageOf, imageReference } from '../../../proto/base-images.ts';
import { findContainerSocket } from '../../../proto/container-socket.ts';

/** A probe that takes longer says that there is no engine, ms. */
const PROBE_MS = 5_000;
/** Most images that are told (nodes.proto, Inventory). */
const MAX_IMAGES = 256;
/** Docker's network that every engine with a bridge has; Podman's. */
const BRIDGES = ['bridge', 'podman'];

/** What the engine is and has, as far as placement wants to know. */
export interface EngineFacts {
  /** Name and version: `docker 20.10.24`. */
  readonly name: string;
  /** References with tags; base images first. */
  readonly images: readonly string[];
  /** The ids of those images, by reference. */
  readonly imageIds: ReadonlyMap<string, string>;
  /** Network that containers are in when the setting is `auto`: absent without one. */
  readonly bridge: string | undefined;
  /** It brings a first process that reaps. */
  readonly hasInit: boolean;
}

export class ContainerEngine {
  readonly #socket: string;
  #docker: { readonly path: string; readonly client: Docker } | undefined;
  #facts: EngineFacts | undefined;
  #addresses = new Map<string, string>();

  /** `socket`: a path, `auto` for the usual places, `none` for no engine at all. */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** What was found when the engine was last asked; absent when it did not answer. */
  get facts(): EngineFacts | undefined {
    return this.#facts;
  }

  /** The client; its calls reject while the engine is away. Throws UNAVAILABLE when there is no socket. */
  async client(): Promise<Docker> {
    const path = await findContainerSocket(this.#socket);
    if (path === undefined) throw new CapstanError('UNAVAILABLE', 'this node has no container engine');
    if (this.#docker?.path !== path) {
      // Loaded late: hosts without an engine do without its weight.
      const { default: Engine } = await import('dockerode');
      // The environment's DOCKER_HOST must not decide for the agent.
      this.#docker = { path, client: new Engine({ socketPath: path, host: undefined, protocol: 'http' }) };
    }
    return this.#docker.client;
  }

  /** Asks the engine what it is and has. Never rejects. */
  async probe(): Promise<EngineFacts | undefined> {
    try {
      this.#facts = await this.#ask();
    } catch {
      // No engine, or none that answers: a normal case, and the inventory says so.
      this.#facts = undefined;
    }
    this.#addresses.clear();
    return this.#facts;
  }

  /** Where a network's containers reach this host: its gateway; the loopback address for `host`; absent for `none`. */
  async hostAddress(network: string): Promise<string | undefined> {
    if (network === 'none') return undefined;
    if (network === 'host') return '127.0.0.1';
    const known = this.#addresses.get(network);
    if (known !== undefined) return known;
    const client = await this.client();
    const { IPAM } = (await timely(client.getNetwork(network).inspect(), AbortSignal.timeout(PROBE_MS))) as NetworkFacts;
    const gateway = IPAM?.Config?.map(({ Gateway }) => Gateway).find((address) => address !== undefined && address !== '');
    if (gateway !== undefined) this.#addresses.set(network, gateway);
    return gateway;
  }

  async #ask(): Promise<EngineFacts> {
    const client = await this.client();
    const abortSignal = AbortSignal.timeout(PROBE_MS);
    const within = { abortSignal };
    const [version, images, networks] = await Promise.all([
      timely(client.version() as Promise<VersionFacts>, abortSignal),
      timely(client.listImages(within), abortSignal),
      timely(client.listNetworks(within), abortSignal),
    ]);
    const engine = version.Components?.find(({ Name }) => /engine/i.test(Name ?? ''));
    const podman = /podman/i.test(engine?.Name ?? '');
    const tags = images.flatMap(({ RepoTags }) => RepoTags ?? []).filter((tag) => !tag.includes('<none>'));
    const ours = tags.filter((tag) => baseImageOf(tag) !== null);
    const others = tags.filter((tag) => baseImageOf(tag) === null);
    const ids = images.flatMap(({ Id, RepoTags, RepoDigests }) =>
      [...(RepoTags ?? []), ...(RepoDigests ?? [])].map((tag) => [tag, Id] as const),
    );
    const [, number] = /^(\d+(?:\.\d+)*)/.exec(version.Version ?? '') ?? [];
    return {
      name: `${podman ? 'podman' : 'docker'} ${number ?? version.Version ?? ''}`.trim(),
      images: [...ours, ...others].slice(0, MAX_IMAGES).map(imageReference),
      imageIds: new Map(ids.map(([tag, id]) => [imageReference(tag), id])),
      bridge: networks.find(({ Name, Driver }) => Driver === 'bridge' && BRIDGES.includes(Name))?.Name,
      hasInit: version.Components?.some(({ Name, Version }) => Name === 'docker-init' && /^\d/.test(Version ?? '')) ?? false,
    };
  }
}

/** What the types of the client leave open. */
interface VersionFacts {
  readonly Version?: string;
  readonly Components?: readonly { readonly Name?: string; readonly Version?: string }[];
}
interface NetworkFacts {
  readonly IPAM?: { readonly Config?: readonly { readonly Gateway?: string }[] };
}

async function timely<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new CapstanError('UNAVAILABLE', 'the container engine does not answer')), { once: true });
  });
  return Promise.race([answer, late]);
}

/** What the engine said, without the client's own words around it. */
export function engineMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const body: unknown = 'json' in error ? error.json : undefined;
  if (typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string') return body.message.trim();
  if (typeof body === 'object' && body !== null && 'cause' in body && typeof body.cause === 'string') return body.cause.trim();
  return error.message.replace(/^\(HTTP code \d+\) [^-]*- /, '').trim();
}

/** HTTP status of the engine's refusal; absent when it did not answer. */
export function engineStatus(error: unknown): number | undefined {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number' ? error.statusCode : undefined;
}
