/**
 * Schedulers on one database. Each writes its row once a second, so that every other, and the tool, sees that it lives, what
 * it is and what it holds. Who owns a cell is the cell's row alone: this decides nothing.
 */
import type { Cluster, CellStatus, SchedulerStatus } from '../../proto/gen/capstan/v1/cluster.ts';
import { SchedulerRole } from '../../proto/gen/capstan/v1/cluster.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import { KNOWN_SCHEMA, SchedulerRows, SEEN_MS, type CellRow, type SeenScheduler } from '../store/postgres/schedulers.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { ClusterSeen, ClusterView, OwnFacts } from './cluster.ts';

const BEAT_MS = 1_000;

interface SeenBatch {
  readonly term: number;
  readonly batch: number;
  /** Monotonic. */
  readonly at: number;
}

export interface PresenceOptions {
  /** `postgres://user@host:port/database`. */
  readonly url: string;
  readonly own: OwnFacts;
  readonly log: EngineLog;
  /** Wall clock of this host, ms since 1970. */
  readonly wall: () => number;
}

export class Presence implements ClusterView {
  readonly #options: PresenceOptions;
  readonly #rows: SchedulerRows;
  #address: string;
  readonly #batches = new Map<string, SeenBatch>();
  #offsetMs = 0;
  #seen: ClusterSeen | null = null;
  #wasOwner = false;
  #hasLostCell = false;
  #failure = '';
  #beating: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #closed = false;
  #leaving: Promise<void> | undefined;

  constructor(options: PresenceOptions) {
    this.#options = options;
    this.#address = options.own.address;
    this.#rows = new SchedulerRows(options.url);
  }

  listening(address: string): void {
    this.#address = address;
    if (!this.#closed) this.#beatNow();
  }

  get seen(): ClusterSeen | null {
    return this.#seen;
  }

  async list(): Promise<Cluster> {
    const { own } = this.#options;
    const rows = this.#rows;
    const cells = await rows.cells();
    const schedulers = (await rows.schedulers()).map((row) => (row.id === own.id ? { ...row, address: this.#address } : row));
    const database = await rows.database();
    this.#observe(cells);
    const termAges = new Map(cells.map(({ owner, termAgeMs }) => [owner, termAgeMs]));
    const shown = schedulers.map((row) => statusOf(row, termAges));
    const ownRow = this.#closed || shown.some(({ id }) => id === own.id) ? [] : [this.#ownStatus(cells)];
    const found: Cluster = {
      cells: cells.map((cell) => this.#cellStatus(cell, schedulers)),
      schedulers: [...shown, ...ownRow],
      answeredBy: own.id,
    };
    if (database === null) return found;
    const { version, schemaVersion, fsync, synchronous, synchronousStandbys } = database;
    const counted = synchronousStandbys === null ? {} : { synchronousStandbys };
    return { ...found, database: { address: rows.shown, version, schemaVersion, fsync, synchronous, ...counted } };
  }

  leave(): Promise<void> {
    return (this.#leaving ??= this.#leave());
  }

  async close(): Promise<void> {
    await this.leave();
    await this.#rows.close();
  }

  async #leave(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#beating;
    try {
      // Who stopped in good order is not reported as missing. A beat that failed is over at the server by now, too.
      await this.#rows.leave(this.#options.own.id);
    } catch (error) {
      this.#options.log.info({ reason: messageOf(error) }, 'the row of this scheduler could not be removed; it expires');
    }
  }

  #beatNow(): void {
    this.#beating = this.#beat().finally(() => {
      if (!this.#closed) this.#timer = setTimeout(() => this.#beatNow(), BEAT_MS);
    });
  }

  async #beat(): Promise<void> {
    const { own, wall, log } = this.#options;
    const { id, cell, hostName, version } = own;
    try {
      const before = wall();
      const row = { id, cell, hostName, version, address: this.#address, masterKeys: own.masterKeys(), clockOffsetMs: this.#offsetMs };
      const now = await this.#rows.beat(row, this.#hasLostCell);
      this.#hasLostCell = false;
      if (now !== null) this.#offsetMs = (before + wall()) / 2 - now;
      const cells = await this.#rows.cells();
      this.#observe(cells);
      const isOwner = cells.some(({ owner }) => owner === id);
      this.#hasLostCell = this.#wasOwner && !isOwner;
      this.#wasOwner = isOwner;
      this.#seen = seenOf(
        cells.find(({ name }) => name === cell),
        await this.#rows.schedulers(),
      );
      if (this.#failure !== '') log.info({}, 'the row of this scheduler is written again');
      this.#failure = '';
    } catch (error) {
      // An outage of the database may last: logged once.
      const failure = messageOf(error);
      if (this.#failure === '') log.warn({ reason: failure }, 'the row of this scheduler cannot be written: the others do not see it');
      this.#failure = failure;
    }
  }

  /** Ages of batches are this host's own monotonic clock since it saw the last change. */
  #observe(cells: readonly CellRow[]): void {
    const at = performance.now();
    for (const { name, term, batch } of cells) {
      const seen = this.#batches.get(name);
      if (seen?.term !== term || seen.batch !== batch) this.#batches.set(name, { term, batch, at });
    }
  }

  #cellStatus(cell: CellRow, schedulers: readonly SeenScheduler[]): CellStatus {
    const seen = this.#batches.get(cell.name);
    return {
      name: cell.name,
      ownerId: cell.owner,
      ownerAddress: schedulers.find(({ id }) => id === cell.owner)?.address ?? cell.address,
      term: BigInt(cell.term),
      termAgeMs: BigInt(cell.termAgeMs),
      ...(seen === undefined ? {} : { lastBatchAgeMs: BigInt(Math.trunc(performance.now() - seen.at)) }),
      takeOvers: BigInt(cell.takeOvers),
      previousOwnerAddress: cell.previousAddress,
      standbys: standbysOf(cell.name, schedulers),
      masterKeyId: cell.masterKey,
    };
  }

  /** Where the schema is older than this program, or the first row is not written yet. */
  #ownStatus(cells: readonly CellRow[]): SchedulerStatus {
    const { id, cell, hostName, version, masterKeys } = this.#options.own;
    const isOwner = cells.some(({ owner }) => owner === id);
    const row = { id, cell, hostName, version, address: this.#address, masterKeys: masterKeys(), clockOffsetMs: this.#offsetMs };
    return statusOf({ ...row, isOwner, schemaVersion: KNOWN_SCHEMA, ageMs: 0, seenMs: 0 }, new Map());
  }
}

function seenOf(cell: CellRow | undefined, schedulers: readonly SeenScheduler[]): ClusterSeen | null {
  if (cell === undefined) return null;
  const present = schedulers.filter((each) => each.cell === cell.name && each.seenMs < SEEN_MS);
  const standbys = present.filter(({ isOwner }) => !isOwner);
  const { masterKey, takeOvers } = cell;
  const isReady = ({ masterKeys, schemaVersion }: SeenScheduler): boolean =>
    schemaVersion >= cell.schemaVersion && (masterKey === '' || masterKeys.includes(masterKey));
  return {
    standbys: standbys.length,
    readyStandbys: standbys.filter(isReady).length,
    takeOvers,
    clockOffsetsMs: new Map(present.map(({ address, clockOffsetMs }) => [address, clockOffsetMs])),
  };
}

function standbysOf(cell: string, schedulers: readonly SeenScheduler[]): number {
  return schedulers.filter((each) => each.cell === cell && !each.isOwner && each.seenMs < SEEN_MS).length;
}

function statusOf(row: SeenScheduler, termAges: ReadonlyMap<string, number>): SchedulerStatus {
  const { id, cell, address, hostName, version, schemaVersion, isOwner } = row;
  const roleAgeMs = isOwner ? (termAges.get(id) ?? row.ageMs) : row.ageMs;
  return {
    id,
    cell,
    role: isOwner ? SchedulerRole.OWNER : SchedulerRole.STANDBY,
    address,
    hostName,
    version,
    schemaVersion,
    masterKeyIds: [...row.masterKeys],
    roleAgeMs: BigInt(roleAgeMs),
    lastSeenAgeMs: BigInt(row.seenMs),
    clockOffsetMs: BigInt(Math.trunc(row.clockOffsetMs)),
  };
}
