/** What a scheduler knows of all schedulers: answered by ClusterService, counted by the metrics. */
import type { Cluster } from '../../proto/gen/capstan/v1/cluster.ts';

/** This scheduler, as it shows itself to the others. */
export interface OwnFacts {
  /** One for each start of the process; the owner of a cell is named by it. */
  readonly id: string;
  /** Name of its cell. */
  readonly cell: string;
  /** Where clients reach it, `host:port`, as far as it is known before it listens. */
  readonly address: string;
  readonly hostName: string;
  readonly version: string;
  /** Ids of the master keys that it holds, the present one first. */
  readonly masterKeys: () => readonly string[];
}

export interface ClusterView {
  /** @throws CapstanError UNAVAILABLE while the database cannot be reached. */
  list(): Promise<Cluster>;
  /** This scheduler listens, and clients reach it at `host:port`. */
  listening(address: string): void;
  /** Standbys of the own cell that were seen lately; null before it was known. */
  readonly standbys: number | null;
  close(): Promise<void>;
}
