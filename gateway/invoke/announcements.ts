/**
 * Decides which announced workers get requests: those that the scheduler's directory places on that node, for that
 * endpoint and release. Other announcements have no effect.
 *
 * A node may announce a worker before the directory's update arrives. So the latest announcement of each link is kept
 * and matched again whenever the placements of its node change.
 */
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import type { Placement } from '../directory/directory.ts';
import { printable } from '../directory/ids.ts';
import type { Log } from '../log.ts';

/** Workers that one node may announce. */
export const MAX_ANNOUNCED = 1_000;
/** Time after which an announced worker that the directory does not know is logged, ms. */
const UNKNOWN_MS = 10_000;
/** Maximum number of remembered rejected announcements; each is logged once. */
const MAX_LOGGED = 1_000;

/** The stream of a node. */
export interface AnnouncingLink {
  readonly node: string;
  /** Ends the stream. */
  refuse(error: CapstanError): void;
}

export interface AnnouncementsOptions<Link extends AnnouncingLink> {
  /** Where the scheduler placed a worker. */
  readonly placementOf: (workerId: string) => Placement | undefined;
  /** Called with all accepted workers of a link whenever they may have changed. */
  readonly onAccepted: (link: Link, workers: readonly ServingWorker[]) => void;
  readonly log: Pick<Log, 'warn'>;
}

interface Announced {
  workers: readonly ServingWorker[];
  /** Logs workers that stay unknown. */
  timer: NodeJS.Timeout | undefined;
}

export class Announcements<Link extends AnnouncingLink> {
  readonly #options: AnnouncementsOptions<Link>;
  readonly #links = new Map<Link, Announced>();
  readonly #logged = new LRUCache<string, true>({ max: MAX_LOGGED });

  constructor(options: AnnouncementsOptions<Link>) {
    this.#options = options;
  }

  /** Handles an announcement: all workers of a node that accept requests. */
  announce(link: Link, workers: readonly ServingWorker[]): void {
    if (workers.length > MAX_ANNOUNCED) {
      link.refuse(new CapstanError('INVALID_ARGUMENT', `workers: at most ${MAX_ANNOUNCED} may be announced`, { field: 'workers' }));
      return;
    }
    const announced = this.#links.get(link) ?? { workers, timer: undefined };
    announced.workers = workers;
    this.#links.set(link, announced);
    this.#match(link, announced);
  }

  /** Handles a change of the directory's placements on a node. */
  placementsChanged(nodeId: string): void {
    for (const [link, announced] of this.#links) if (link.node === nodeId) this.#match(link, announced);
  }

  /** The stream of a node ended. */
  gone(link: Link): void {
    clearTimeout(this.#links.get(link)?.timer);
    this.#links.delete(link);
    this.#options.onAccepted(link, []);
  }

  #match(link: Link, announced: Announced): void {
    const accepted: ServingWorker[] = [];
    let unknown = 0;
    for (const worker of announced.workers) {
      const placement = this.#options.placementOf(worker.workerId);
      if (placement === undefined) unknown += 1;
      else if (isAsPlaced(link, worker, placement)) accepted.push({ ...worker, slots: Math.min(worker.slots, placement.slots) });
      else this.#reject(link, worker, 'the scheduler placed this worker on another node, or for another endpoint or release');
    }
    if (unknown === 0) {
      clearTimeout(announced.timer);
      announced.timer = undefined;
    } else announced.timer ??= setTimeout(() => this.#logUnknown(link, announced), UNKNOWN_MS).unref();
    this.#options.onAccepted(link, accepted);
  }

  #logUnknown(link: Link, announced: Announced): void {
    announced.timer = undefined;
    for (const worker of announced.workers) {
      if (this.#options.placementOf(worker.workerId) === undefined)
        this.#reject(link, worker, 'the scheduler did not place this worker, or is draining it');
    }
  }

  #reject(link: Link, { workerId, endpointId, releaseId }: ServingWorker, reason: string): void {
    const name = JSON.stringify([link.node, workerId, endpointId, releaseId].map((id) => id.slice(0, 128)));
    if (this.#logged.has(name)) return;
    this.#logged.set(name, true);
    const facts = { node: link.node, worker: printable(workerId), endpoint: printable(endpointId), release: printable(releaseId) };
    this.#options.log.warn({ ...facts, reason }, 'announced worker rejected');
  }
}

function isAsPlaced(link: AnnouncingLink, worker: ServingWorker, placement: Placement): boolean {
  return placement.nodeId === link.node && placement.endpointId === worker.endpointId && placement.releaseId === worker.releaseId;
}
