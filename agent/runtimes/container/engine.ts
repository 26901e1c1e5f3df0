/** The container engine of this host, over the Docker Engine API of Docker or Podman. */
import { basename } from 'node:path';

import type Docker from 'dockerode';
import ipaddr from 'ipaddr.js';

import { CapstanError } from '../../../lib/errors.ts';
import { baseImageOf, imageReference } from '../../../lib/base-images.ts';
import { findContainerSocket } from '../../../lib/container-socket.ts';
import { PODMAN_CREATE, podmanRequest } from './create-podman.ts';
import { ImageRequirements } from './image-requirements.ts';
import { createRequest, type ContainerSpec, type ContainerRules } from './create-request.ts';
import { systemCallProfile } from './system-calls.ts';

/** Time-out of a probe, ms; after it the engine counts as absent. */
const PROBE_MS = 5_000;
/** Longer time-out for the same probe before a container is created, ms. */
const VERSION_MS = 60_000;
/** Most images reported (nodes.proto, Inventory). */
const MAX_IMAGES = 256;
/** Docker's word for its own profile: `default`, since version 23 `builtin`. Podman names the path of a file. */
const OWN_FILTER = /^name=seccomp,profile=(default|builtin)$/;
/** The default bridge network: Docker's name, then Podman's. */
const BRIDGES = ['bridge', 'podman'];

/** Capabilities of the engine that matter for placement. */
export interface EngineFacts {
  /** Name and version: `docker 20.10.24`. */
  readonly name: string;
  /** References with tags; base images first. */
  readonly images: readonly string[];
  /** What images require of the driver, by reference (see lib/nvidia-requirement.ts). */
  readonly requirements: ReadonlyMap<string, readonly string[]>;
  /** The ids of those images, by reference. */
  readonly imageIds: ReadonlyMap<string, string>;
  /** Network used when the setting is `auto`: absent without one. */
  readonly bridge: string | undefined;
  /** It provides an init process that reaps. */
  readonly hasInit: boolean;
  /** Names of its runtimes, and of the one that containers get unless another is named. */
  readonly runtimes: ReadonlyMap<string, RuntimeKind>;
  readonly defaultRuntime: string;
  /** It filters system calls, by a profile of its own: an operator's profile stays. */
  readonly hasOwnFilter: boolean;
}

/** `gvisor`: has a kernel of its own in front of the host's. */
export type RuntimeKind = 'container' | 'gvisor';

export class ContainerEngine {
  readonly #socket: string;
  #docker: { readonly path: string; readonly client: Docker } | undefined;
  #facts: EngineFacts | undefined;
  /** It is Podman, whose own API creates its containers; absent until known. */
  #isPodman: boolean | undefined;
  #addresses = new Map<string, string>();
  readonly #requirements = new ImageRequirements();

  /** `socket`: a path, `auto` for the usual places, `none` for no engine. */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Result of the last probe; absent when the engine did not answer. */
  get facts(): EngineFacts | undefined {
    return this.#facts;
  }

  /**
   * Returns the client; its calls reject while the engine is unavailable. Throws UNAVAILABLE when there is no socket.
   */
  async client(): Promise<Docker> {
    const path = await findContainerSocket(this.#socket);
    if (path === undefined) throw new CapstanError('UNAVAILABLE', 'this node has no container engine');
    if (this.#docker?.path !== path) {
      // Loaded on demand: hosts without an engine do not pay for it.
      const { default: Engine } = await import('dockerode');
      // The agent ignores DOCKER_HOST of the environment.
      this.#isPodman = undefined;
      this.#docker = { path, client: new Engine({ socketPath: path, host: undefined, protocol: 'http' }) };
    }
    return this.#docker.client;
  }

  /** Probes the engine. Never rejects. */
  async probe(): Promise<EngineFacts | undefined> {
    try {
      this.#facts = await this.#readFacts();
    } catch {
      // A missing or silent engine is a normal case, which the inventory reports.
      this.#facts = undefined;
    }
    this.#addresses.clear();
    return this.#facts;
  }

  /** Creates a container; rejects with the engine's error (see {@link isMissingImage}). */
  async create(order: ContainerSpec, rules: ContainerRules): Promise<Docker.Container> {
    const client = await this.client();
    this.#isPodman ??= podmanIn(await this.#version(client, AbortSignal.timeout(VERSION_MS)));
    const named = { ...order, image: imageReference(order.image) };
    // The client modifies its argument.
    if (!this.#isPodman) return client.createContainer(structuredClone(createRequest(named, rules, await this.#profile())));
    const { promise, resolve, reject } = Promise.withResolvers<{ readonly Id: string }>();
    const request = { path: PODMAN_CREATE, method: 'POST', options: podmanRequest(named, rules), statusCodes: { 201: true } };
    (client.modem as PlainModem).dial(request, (error, made) => (made === null ? reject(error) : resolve(made)));
    return client.getContainer((await promise).Id);
  }

  /**
   * Returns the address at which a network's containers reach this host: its gateway; the loopback address for `host`;
   * absent for `none`.
   */
  async hostAddress(network: string): Promise<string | undefined> {
    if (network === 'none') return undefined;
    if (network === 'host') return '127.0.0.1';
    const known = this.#addresses.get(network);
    if (known !== undefined) return known;
    const client = await this.client();
    const { IPAM } = (await timely(client.getNetwork(network).inspect(), AbortSignal.timeout(PROBE_MS))) as NetworkFacts;
    const gateway = gatewayOf(IPAM?.Config ?? []);
    if (gateway !== undefined) this.#addresses.set(network, gateway);
    return gateway;
  }

  /** Undefined where the engine does not filter, or the operator chose its filter. */
  async #profile(): Promise<string | undefined> {
    const facts = this.#facts ?? (await this.probe());
    return facts?.hasOwnFilter === true ? systemCallProfile() : undefined;
  }

  #version(client: Docker, signal: AbortSignal): Promise<VersionFacts> {
    return timely(client.version() as Promise<VersionFacts>, signal);
  }

  async #readFacts(): Promise<EngineFacts> {
    const client = await this.client();
    const abortSignal = AbortSignal.timeout(PROBE_MS);
    const within = { abortSignal };
    const [version, info, images, networks] = await Promise.all([
      this.#version(client, abortSignal),
      timely(client.info() as Promise<SystemFacts>, abortSignal),
      timely(client.listImages(within), abortSignal),
      timely(client.listNetworks(within), abortSignal),
    ]);
    this.#isPodman = podmanIn(version);
    const tags = images.flatMap(({ RepoTags }) => RepoTags ?? []).filter((tag) => !tag.includes('<none>'));
    const ours = tags.filter((tag) => baseImageOf(tag) !== null);
    const others = tags.filter((tag) => baseImageOf(tag) === null);
    const ids = images.flatMap(({ Id, RepoTags, RepoDigests }) =>
      [...(RepoTags ?? []), ...(RepoDigests ?? [])].map((tag) => [tag, Id] as const),
    );
    const reported = [...ours, ...others].slice(0, MAX_IMAGES).map(imageReference);
    const imageIds = new Map(ids.map(([tag, id]) => [imageReference(tag), id]));
    const runtimes = Object.entries(info.Runtimes ?? {}).map(([name, facts]) => [name, runtimeKind(name, facts)] as const);
    const [, number] = /^(\d+(?:\.\d+)*)/.exec(version.Version ?? '') ?? [];
    return {
      name: `${this.#isPodman ? 'podman' : 'docker'} ${number ?? version.Version ?? ''}`.trim(),
      images: reported,
      imageIds,
      requirements: await this.#requirements.of(client, reported, imageIds),
      runtimes: new Map(runtimes),
      defaultRuntime: info.DefaultRuntime ?? '',
      hasOwnFilter: (info.SecurityOptions ?? []).some((option) => OWN_FILTER.test(option)),
      bridge: networks.find(({ Name, Driver }) => Driver === 'bridge' && BRIDGES.includes(Name))?.Name,
      hasInit: version.Components?.some(({ Name, Version }) => Name === 'docker-init' && /^\d/.test(Version ?? '')) ?? false,
    };
  }
}

/**
 * Rejects with CONFIG when the engine answers and has no runtime of this name (CAPSTAN_CONTAINER_RUNTIME). An engine that
 * does not answer may come later: it then refuses the containers.
 */
export async function checkContainerRuntime(engine: ContainerEngine, runtime: string | undefined): Promise<void> {
  const facts = runtime === undefined ? undefined : await engine.probe();
  if (runtime === undefined || facts === undefined || facts.runtimes.has(runtime)) return;
  const known = [...facts.runtimes.keys()].toSorted().join(', ') || 'none';
  throw new CapstanError(
    'CONFIG',
    `CAPSTAN_CONTAINER_RUNTIME: the container engine has no runtime ${runtime}; it has: ${known}. Add it to the engine's configuration (Docker: "runtimes" in daemon.json)`,
    { field: 'containerRuntime' },
  );
}

/**
 * Docker does not report the gateway of its default bridge before its second start: it is then the subnet's first
 * address.
 */
function gatewayOf(subnets: readonly Subnet[]): string | undefined {
  const gateway = subnets.map(({ Gateway }) => Gateway).find((address) => address !== undefined && address !== '');
  const subnet = subnets.map(({ Subnet }) => Subnet).find((range) => range !== undefined && ipaddr.IPv4.isValidCIDR(range));
  if (gateway !== undefined || subnet === undefined) return gateway;
  const [a = 0, b = 0, c = 0, d = 0] = ipaddr.IPv4.networkAddressFromCIDR(subnet).octets;
  return [a, b, c, d + 1].join('.');
}

/** gVisor's program is `runsc`, whatever the operator calls the runtime. */
function runtimeKind(name: string, { path = '', runtimeType = '' }: RuntimeFacts): RuntimeKind {
  return [name, basename(path), runtimeType].some((each) => /runsc|gvisor/i.test(each)) ? 'gvisor' : 'container';
}

function podmanIn({ Components }: VersionFacts): boolean {
  return /podman/i.test(Components?.find(({ Name }) => /engine/i.test(Name ?? ''))?.Name ?? '');
}

/** Fields missing in the client's types. */
interface VersionFacts {
  readonly Version?: string;
  readonly Components?: readonly { readonly Name?: string; readonly Version?: string }[];
}
interface SystemFacts {
  readonly Runtimes?: Readonly<Record<string, RuntimeFacts>>;
  readonly DefaultRuntime?: string;
  readonly SecurityOptions?: readonly string[];
}
interface RuntimeFacts {
  readonly path?: string;
  /** Of a runtime that is a shim of containerd. */
  readonly runtimeType?: string;
}
interface PlainModem {
  dial(request: object, done: (error: Error | null, made: { readonly Id: string } | null) => void): void;
}
interface NetworkFacts {
  readonly IPAM?: { readonly Config?: readonly Subnet[] };
}
interface Subnet {
  readonly Gateway?: string;
  readonly Subnet?: string;
}

async function timely<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new CapstanError('UNAVAILABLE', 'the container engine does not respond')), {
      once: true,
    });
  });
  return Promise.race([answer, late]);
}

/** Returns the engine's own message without the client's prefix. */
export function engineMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const body: unknown = 'json' in error ? error.json : undefined;
  if (typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string') return body.message.trim();
  if (typeof body === 'object' && body !== null && 'cause' in body && typeof body.cause === 'string') return body.cause.trim();
  return error.message.replace(/^\(HTTP code \d+\) [^-]*- /, '').trim();
}

/** True when the engine refused to create a container because its image is missing. */
export function isMissingImage(error: unknown): boolean {
  return (engineStatus(error) === 404 && /image/i.test(engineMessage(error))) || /image not known/i.test(engineMessage(error));
}

/** HTTP status of the engine's error; absent when it did not answer. */
export function engineStatus(error: unknown): number | undefined {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number' ? error.statusCode : undefined;
}
