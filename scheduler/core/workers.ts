/** The desired workers of each node: kept in the store, told to agents whole, with an epoch. */
import type { Decision } from './effects.ts';
import type { EndpointImage, Image, NodeImage, Now, WorkerImage } from './image.ts';
import { putRow } from './rows.ts';
import { randomName } from './random.ts';

/** What a desired row says of a worker. */
export interface DesiredWorker {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly devices: readonly string[];
  readonly maxConcurrency: number;
  readonly decision: string;
  readonly drain: boolean;
}

/** The desired row of a node. */
export interface DesiredRow {
  readonly epoch: number;
  readonly workers: readonly DesiredWorker[];
}

/** Asks for a worker of the endpoint's present release on a node. */
export function askWorker(
  image: Image,
  now: Now,
  endpoint: EndpointImage,
  node: NodeImage,
  devices: readonly string[],
  decision: string,
): WorkerImage {
  const worker: WorkerImage = {
    id: freshId(image),
    endpoint: endpoint.config.id,
    release: endpoint.config.release,
    node: node.config.id,
    devices,
    maxConcurrency: image.releases.get(endpoint.config.release)?.maxConcurrency ?? 1,
    decision,
    drain: false,
    status: null,
    attempts: new Map(),
    lastUsed: image.nextUse++,
    idleSince: now.mono,
    notBefore: 0,
  };
  addWorker(image, worker);
  image.dirtyNodes.add(node.config.id);
  return worker;
}

export function addWorker(image: Image, worker: WorkerImage): void {
  image.workers.set(worker.id, worker);
  image.nodes.get(worker.node)?.workers.add(worker.id);
  image.endpoints.get(worker.endpoint)?.workers.add(worker.id);
}

/** Asks a worker to finish what it holds and go. */
export function drainWorker(image: Image, worker: WorkerImage, decision: string): void {
  if (worker.drain) return;
  worker.drain = true;
  worker.decision = decision;
  image.dirtyNodes.add(worker.node);
}

/** The worker is gone, or its node is. */
export function forgetWorker(image: Image, id: string): void {
  const worker = image.workers.get(id);
  if (worker === undefined) return;
  image.workers.delete(id);
  image.nodes.get(worker.node)?.workers.delete(id);
  image.endpoints.get(worker.endpoint)?.workers.delete(id);
  image.dirtyNodes.add(worker.node);
  image.unsettled.add(worker.endpoint);
}

/** Writes and sends the desired set of every node that changed in this step. */
export function flushDesired(image: Image, out: Decision): void {
  for (const id of image.dirtyNodes) {
    const node = image.nodes.get(id);
    if (node === undefined) continue;
    node.epoch++;
    const workers = [...node.workers].flatMap((worker) => image.workers.get(worker) ?? []);
    const row: DesiredRow = { epoch: node.epoch, workers: workers.map(toDesired) };
    const write = putRow(image, out, 'desired', id, row);
    if (node.session !== null)
      out.do(
        { effect: 'send-desired', node: id, session: node.session, epoch: node.epoch, workers: workers.map((worker) => ({ ...worker })) },
        write,
      );
  }
  image.dirtyNodes.clear();
}

function toDesired(worker: WorkerImage): DesiredWorker {
  const { id, endpoint, release, devices, maxConcurrency, decision, drain } = worker;
  return { id, endpoint, release, devices, maxConcurrency, decision, drain };
}

function freshId(image: Image): string {
  for (;;) {
    const id = randomName(image.random, 14);
    if (!image.workers.has(id)) return id;
  }
}
