/** The resources of a preview at the container engine: one network, and the containers of its agent. */
import type Docker from 'dockerode';

import { findContainerSocket } from '../../lib/container-socket.ts';
import { messageOf } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** Labels of a preview's network. */
const PREVIEW = 'capstan.preview';
const FOLDER = 'capstan.preview.folder';
/** The agent's label for the name of its node (docs/runtimes.md). */
const NODE = 'capstan.node';
/** An engine that does not respond within this time is unavailable, ms. */
const CALL_MS = 30_000;

/** One preview: its name is that of its node and of its network. */
export interface PreviewName {
  readonly name: string;
  /** Its files on this host; a lock file among them shows whether it is running. */
  readonly folder: string;
}

export interface PreviewNetwork {
  /** The address of this host in the network; undefined when the engine does not report it. */
  readonly gateway: string | undefined;
}

/** @throws CapstanError UNAVAILABLE when there is no engine, or it does not respond. */
export async function connectEngine(socket: string): Promise<Docker> {
  const hint = 'Start Docker or Podman, or set CAPSTAN_CONTAINER_SOCKET to its socket. Without containers: capstan run.';
  const path = await findContainerSocket(socket);
  if (path === undefined)
    throw new ToolError('UNAVAILABLE', `no container engine (CAPSTAN_CONTAINER_SOCKET is ${socket}); a preview requires one`, hint);
  const { default: Engine } = await import('dockerode');
  // DOCKER_HOST of the environment may be another machine, whose containers could not reach this one.
  const engine = new Engine({ socketPath: path, host: undefined, protocol: 'http', timeout: CALL_MS });
  try {
    await engine.ping();
  } catch (cause) {
    throw new ToolError('UNAVAILABLE', `the container engine at ${path} does not respond: ${messageOf(cause)}`, hint, { cause });
  }
  return engine;
}

/** Tags of the images that the engine has. */
export async function localImages(engine: Docker): Promise<string[]> {
  const images = await engine.listImages();
  return images.flatMap(({ RepoTags }) => RepoTags ?? []);
}

/** Creates the preview's network; rejects when the engine cannot. */
export async function createNetwork(engine: Docker, { name, folder }: PreviewName): Promise<PreviewNetwork> {
  const network = await engine.createNetwork({ Name: name, Driver: 'bridge', Labels: { [PREVIEW]: name, [FOLDER]: folder } });
  const facts = (await network.inspect()) as { readonly IPAM?: { readonly Config?: readonly { readonly Gateway?: string }[] } };
  const addresses = (facts.IPAM?.Config ?? []).map(({ Gateway }) => Gateway);
  // Podman writes the address with its prefix length.
  return { gateway: addresses.find((address) => address !== undefined && address !== '')?.replace(/\/.*$/, '') };
}

/** Removes all resources of a preview at the engine; returns their number. */
export async function removePreview(engine: Docker, name: string): Promise<number> {
  const containers = await engine.listContainers({ all: true, filters: { label: [`${NODE}=${name}`] } });
  await Promise.all(containers.map(({ Id }) => forgiving(engine.getContainer(Id).remove({ force: true, v: true }))));
  const networks = await engine.listNetworks({ filters: { label: [`${PREVIEW}=${name}`] } });
  await Promise.all(networks.map(({ Id }) => forgiving(engine.getNetwork(Id).remove())));
  return containers.length + networks.length;
}

/** Returns every preview that has a network at the engine. */
export async function knownPreviews(engine: Docker): Promise<PreviewName[]> {
  const networks = await engine.listNetworks({ filters: { label: [PREVIEW] } });
  return networks.flatMap(({ Labels }) => {
    const { [PREVIEW]: name, [FOLDER]: folder } = Labels ?? {};
    return name === undefined || folder === undefined ? [] : [{ name, folder }];
  });
}

/** A resource that is already removed, or is being removed, counts as removed. */
async function forgiving(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
    if (status !== 404 && status !== 409) throw error;
  }
}
