/**
 * The list of schedulers, asked of any of them: all are asked at once and the first answer counts, because the one that is
 * lost or paused may be any, and would not even refuse the connection.
 */
import { Metadata, type ChannelCredentials, type ChannelOptions } from '@grpc/grpc-js';

import { ClusterServiceClient, SchedulerRole, type Cluster } from '../../proto/gen/capstan/v1/cluster.ts';
import { assertNever, type CapstanError } from '../errors.ts';
import { fromServiceError } from '../grpc-errors.ts';
import { schedulerAddresses } from './addresses.ts';
import { toError } from '../to-error.ts';

/** A cell as the tool and GraphQL show it; ages and offsets in ms. */
export interface CellRow {
  readonly name: string;
  readonly ownerId: string;
  readonly ownerAddress: string;
  readonly term: number;
  readonly termAgeMs: number;
  /** Null with SQLite. */
  readonly lastBatchAgeMs: number | null;
  readonly takeOvers: number;
  readonly previousOwnerAddress: string | null;
  readonly standbys: number;
  readonly masterKeyId: string | null;
}

export interface SchedulerRow {
  readonly id: string;
  readonly cell: string;
  readonly role: 'OWNER' | 'STANDBY';
  readonly address: string;
  readonly hostName: string;
  readonly version: string;
  readonly schemaVersion: number;
  readonly masterKeyIds: readonly string[];
  readonly roleAgeMs: number;
  readonly lastSeenAgeMs: number;
  readonly clockOffsetMs: number;
}

export interface DatabaseRow {
  readonly address: string;
  readonly version: string;
  readonly schemaVersion: number;
  readonly fsync: boolean;
  readonly synchronous: boolean;
  /** Null where the database does not show them to the schedulers' role. */
  readonly synchronousStandbys: number | null;
}

export interface ClusterRow {
  readonly cells: readonly CellRow[];
  readonly schedulers: readonly SchedulerRow[];
  /** Null with SQLite. */
  readonly database: DatabaseRow | null;
  /** Id of the scheduler that answered. */
  readonly answeredBy: string;
}

export function clusterRow({ cells, schedulers, database, answeredBy }: Cluster): ClusterRow {
  return {
    cells: cells.map(({ termAgeMs, lastBatchAgeMs, takeOvers, term, previousOwnerAddress, masterKeyId, ...cell }) => ({
      ...cell,
      term: Number(term),
      termAgeMs: Number(termAgeMs),
      lastBatchAgeMs: lastBatchAgeMs === undefined ? null : Number(lastBatchAgeMs),
      takeOvers: Number(takeOvers),
      previousOwnerAddress: previousOwnerAddress === '' ? null : previousOwnerAddress,
      masterKeyId: masterKeyId === '' ? null : masterKeyId,
    })),
    schedulers: schedulers.map(({ role, roleAgeMs, lastSeenAgeMs, clockOffsetMs, ...scheduler }) => ({
      ...scheduler,
      role: roleName(role),
      roleAgeMs: Number(roleAgeMs),
      lastSeenAgeMs: Number(lastSeenAgeMs),
      clockOffsetMs: Number(clockOffsetMs),
    })),
    database: database === undefined ? null : { ...database, synchronousStandbys: database.synchronousStandbys ?? null },
    answeredBy,
  };
}

export class ClusterClient {
  /** By the address in the setting. */
  readonly #clients: ReadonlyMap<string, ClusterServiceClient>;
  readonly #metadata: Metadata;

  /** `addresses`: CAPSTAN_SCHEDULER. `token`: the gateway token. */
  constructor(addresses: string, token: string, credentials: ChannelCredentials, options: ChannelOptions) {
    const all = schedulerAddresses(addresses);
    this.#clients = new Map(all.map((address) => [address, new ClusterServiceClient(address, credentials, options)]));
    this.#metadata = new Metadata();
    this.#metadata.set('authorization', `Bearer ${token}`);
  }

  /** @throws CapstanError when none answers within `timeoutMs`: a refusal, else UNAVAILABLE or DEADLINE_EXCEEDED. */
  async list(timeoutMs: number): Promise<ClusterRow> {
    try {
      return clusterRow(await Promise.any([...this.#clients.values()].map((client) => this.#ask(client, timeoutMs))));
    } catch (error) {
      if (!(error instanceof AggregateError)) throw error;
      const failures = error.errors as CapstanError[];
      throw failures.find(({ code }) => code !== 'UNAVAILABLE' && code !== 'DEADLINE_EXCEEDED') ?? toError(failures[0]);
    }
  }

  /**
   * Metrics of one scheduler, in Prometheus' text format; undefined for an address that the setting does not list.
   * @throws CapstanError when it does not answer within `timeoutMs`.
   */
  async metrics(address: string, timeoutMs: number): Promise<string | undefined> {
    const client = this.#clients.get(address);
    if (client === undefined) return undefined;
    return new Promise((resolve, reject) => {
      client.metrics({}, this.#metadata, { deadline: Date.now() + timeoutMs }, (error, reply) => {
        if (error === null) resolve(reply.text);
        else reject(fromServiceError(error));
      });
    });
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
  }

  #ask(client: ClusterServiceClient, timeoutMs: number): Promise<Cluster> {
    return new Promise((resolve, reject) => {
      client.list({}, this.#metadata, { deadline: Date.now() + timeoutMs }, (error, cluster) => {
        if (error === null) resolve(cluster);
        else reject(fromServiceError(error));
      });
    });
  }
}

function roleName(role: SchedulerRole): SchedulerRow['role'] {
  switch (role) {
    case SchedulerRole.OWNER:
      return 'OWNER';
    case SchedulerRole.STANDBY:
    case SchedulerRole.UNSPECIFIED:
    case SchedulerRole.UNRECOGNIZED:
      return 'STANDBY';
    default:
      return assertNever(role);
  }
}
