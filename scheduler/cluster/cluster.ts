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

/** For metrics. */
export interface ClusterSeen {
  /** Seen within the last 10 seconds. */
  readonly standbys: number;
  /** Those that hold the present master key and know the schema. */
  readonly readyStandbys: number;
  readonly takeOvers: number;
  /** By address, of the schedulers that were seen lately. */
  readonly clockOffsetsMs: ReadonlyMap<string, number>;
}

export interface ClusterView {
  /** @throws CapstanError UNAVAILABLE while the database cannot be reached. */
  list(): Promise<Cluster>;
  /** This scheduler listens, and clients reach it at `host:port`: from now on it shows itself to the others. */
  listening(address: string): void;
  /** What the last look saw of the own cell; null where there is no other scheduler to see, or before the first look. */
  readonly seen: ClusterSeen | null;
  /** Takes this scheduler out of the list: it is stopping, and takes nothing over any more. The list can still be read. */
  leave(): Promise<void>;
  close(): Promise<void>;
}
