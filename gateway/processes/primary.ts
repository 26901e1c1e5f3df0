/**
 * Serves one port with several processes. The primary accepts connections and passes them on in turn; it starts a process again that
 * has ended, and replaces all of them one by one on demand, while the others serve.
 */
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { CapstanError, isErrorCode } from '../../lib/errors.ts';
import type { GatewayConfig } from '../config.ts';
import { RateTable } from '../http/key-rates.ts';
import { createLog, type Log } from '../log.ts';
import { addRetired, type MetricData } from '../metrics/joined-figures.ts';
import { fromProcess, LAST_FIGURES, type ToProcess } from './messages.ts';
import { portToKeep, shareOf } from './shares.ts';

/** Wait before a process that has ended is started again: doubles up to the longest, and starts anew after a time of service, ms. */
const MIN_RESTART_MS = 1_000;
const MAX_RESTART_MS = 30_000;
const STEADY_MS = 60_000;
/** Time limit for the figures of all processes, ms. One that does not answer is left out. */
const COLLECT_MS = 2_000;
/** A process that has not ended this long after its requests should have is killed, ms. */
const KILL_MS = 5_000;

/** One run of one of the processes. */
interface Member {
  readonly index: number;
  readonly worker: Worker;
  /** Resolves with its URL; rejects when it could not start. */
  readonly serving: Promise<string>;
  readonly ended: Promise<void>;
  /** It receives messages: those before are lost. */
  isReady: boolean;
  hasServed: boolean;
  /** Its figures when it was last asked. */
  figures: readonly MetricData[];
  isClosing: boolean;
  /** It starts in a reload, which reports its end. */
  isReplacement: boolean;
}

/** The processes whose figures a scrape waits for. */
interface Collection {
  readonly missing: Set<Member>;
  readonly done: () => void;
}

export class GatewayProcesses {
  readonly #config: GatewayConfig;
  readonly #count: number;
  readonly #log: Log;
  readonly #members = new Set<Member>();
  /** Starts in a row that did not lead to a time of service, by process. */
  readonly #failures = new Map<number, number>();
  /** What ended processes have counted. */
  #retired: readonly MetricData[] = [];
  readonly #rates: RateTable;
  readonly #collections = new Map<number, Collection>();
  readonly #closing = new AbortController();
  #lastCollection = LAST_FIGURES;
  #reloading: Promise<void> = Promise.resolve();
  /** The port that the processes listen on: they share the one that is picked for 0, as long as one of them lives. */
  #port: number;
  #url = '';

  private constructor(config: GatewayConfig, count: number, log: Log) {
    this.#config = config;
    this.#count = count;
    this.#port = config.port;
    this.#log = log;
    this.#rates = new RateTable(config.graphqlPerSecond);
  }

  /**
   * Starts the processes; resolves when all of them serve.
   * @throws CapstanError ADDRESS_IN_USE, CONFIG
   */
  static async start(config: GatewayConfig, count: number, log: Log = createLog(config.logLevel)): Promise<GatewayProcesses> {
    cluster.schedulingPolicy = cluster.SCHED_RR;
    cluster.setupPrimary({ exec: fileURLToPath(new URL('./process.ts', import.meta.url)), args: ['gateway'], serialization: 'advanced' });
    const processes = new GatewayProcesses(config, count, log);
    const members = Array.from({ length: count }, (_, index) => processes.#fork(index));
    const started = await Promise.allSettled(members.map(({ serving }) => serving));
    const failed = started.find((result) => result.status === 'rejected');
    if (failed !== undefined) {
      await processes.close();
      throw failed.reason;
    }
    processes.#url = await (members[0]?.serving ?? '');
    log.info({ url: processes.url, processes: count }, 'all gateway processes started');
    return processes;
  }

  /** Address at which they serve, for example `http://127.0.0.1:8080`. */
  get url(): string {
    return this.#url;
  }

  /** Replaces the processes one by one: requests in progress end, new connections reach the others. */
  async reload(): Promise<void> {
    this.#reloading = this.#reloading.then(async () => {
      for (const member of [...this.#members]) if (!(await this.#replace(member))) return;
      if (!this.#isClosing) this.#log.info({ processes: this.#count }, 'all gateway processes replaced');
    });
    return this.#reloading;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#members].map((member) => this.#end(member)));
  }

  get #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  #fork(index: number): Member {
    const serving = Promise.withResolvers<string>();
    serving.promise.catch(() => undefined); // the exit is handled below, whoever waits for the start
    const ended = Promise.withResolvers<void>();
    const worker = cluster.fork();
    const member: Member = {
      ...{ index, worker, serving: serving.promise, ended: ended.promise },
      ...{ isReady: false, hasServed: false, figures: [], isClosing: false, isReplacement: false },
    };
    this.#members.add(member);
    const startedAt = performance.now();
    let refusal: CapstanError | undefined;
    worker.on('message', (raw: unknown) => {
      const { success, data: message } = fromProcess.safeParse(raw);
      if (!success) return;
      if (message.type === 'ready') {
        member.isReady = true;
        const config = { ...shareOf(this.#config, index, this.#count), port: this.#port };
        tell(worker, { type: 'start', config, process: index });
      } else if (message.type === 'serving') {
        member.hasServed = true;
        serving.resolve(message.url);
      } else if (message.type === 'failed') {
        const { code, message: text, field } = message;
        refusal = new CapstanError(isErrorCode(code) ? code : 'INTERNAL', text, field === undefined ? {} : { field });
      } else if (message.type === 'metrics') this.#collected(member, message.id, message.metrics);
      else if (message.type === 'leave') tell(worker, { type: 'left', id: message.id });
      else if (message.type === 'take')
        tell(worker, { type: 'taken', id: message.id, isAllowed: this.#rates.take(message.name, performance.now()) });
      else void this.#collect().then((metrics) => tell(worker, { type: 'scraped', id: message.id, metrics }));
    });
    worker.on('error', (err) => this.#log.warn({ err, process: index }, 'a gateway process could not be told'));
    worker.on('exit', (code, signal) => {
      this.#retire(member);
      const how = signal ?? `exit code ${code}`;
      serving.reject(refusal ?? new CapstanError('INTERNAL', `a gateway process ended during its start (${how})`));
      ended.resolve();
      if (member.isClosing || member.isReplacement || this.#isClosing) return;
      if (performance.now() - startedAt > STEADY_MS) this.#failures.delete(index);
      // Why the very first start failed is thrown there.
      if (member.hasServed || this.#url !== '') void this.#restart(index, how, refusal);
    });
    return member;
  }

  async #restart(index: number, how: string, reason: CapstanError | undefined): Promise<void> {
    const failures = this.#failures.get(index) ?? 0;
    this.#failures.set(index, failures + 1);
    const waitMs = Math.min(MAX_RESTART_MS, MIN_RESTART_MS * 2 ** failures);
    this.#log.error(
      { process: index, how, waitMs, ...(reason === undefined ? {} : { err: reason }) },
      'a gateway process ended; it is started again',
    );
    await pause(waitMs, undefined, { signal: this.#closing.signal }).catch(() => undefined);
    // A reload may have started it meanwhile.
    if (!this.#isClosing && ![...this.#members].some((member) => member.index === index && !member.isClosing)) this.#fork(index);
  }

  /** Returns false when the reload cannot go on. */
  async #replace(member: Member): Promise<boolean> {
    if (this.#isClosing || !this.#members.has(member)) return !this.#isClosing;
    // A fixed port for agents is free only when the former process has ended.
    const isFixed = this.#config.invokePort > 0;
    if (isFixed) await this.#end(member);
    if (this.#isClosing) return false;
    const next = this.#fork(member.index);
    next.isReplacement = !isFixed;
    try {
      await next.serving;
    } catch (error) {
      if (this.#isClosing) return false;
      this.#log.error({ err: error, process: member.index }, 'a gateway process could not be replaced; the former ones go on');
      // The former one has ended by itself while this one started, which is why nothing else starts it again.
      if (!isFixed && !this.#members.has(member)) void this.#restart(member.index, 'before it was replaced', undefined);
      return false;
    }
    next.isReplacement = false;
    await this.#end(member);
    return true;
  }

  async #end(member: Member): Promise<void> {
    member.isClosing = true;
    if (member.isReady) tell(member.worker, { type: 'close' });
    else member.worker.process.kill('SIGKILL');
    const late = setTimeout(() => {
      this.#log.warn({ process: member.index }, 'a gateway process did not end in time and is killed');
      member.worker.process.kill('SIGKILL');
    }, this.#config.closeGraceMs + KILL_MS);
    await member.ended;
    clearTimeout(late);
  }

  #retire(member: Member): void {
    this.#members.delete(member);
    this.#retired = addRetired(this.#retired, member.figures);
    for (const collection of this.#collections.values()) dropFrom(collection, member);
    if (this.#members.size === 0 && this.#url !== '') this.#port = portToKeep(this.#config, this.#url);
  }

  async #collect(): Promise<readonly (readonly MetricData[])[]> {
    this.#lastCollection += 1;
    const id = this.#lastCollection;
    const { promise, resolve } = Promise.withResolvers<void>();
    // One that starts has no figures, and does not answer.
    const collection: Collection = { missing: new Set([...this.#members].filter(({ hasServed }) => hasServed)), done: resolve };
    if (collection.missing.size === 0) resolve();
    this.#collections.set(id, collection);
    for (const { worker } of collection.missing) tell(worker, { type: 'collect', id });
    const late = setTimeout(resolve, COLLECT_MS);
    await promise;
    clearTimeout(late);
    this.#collections.delete(id);
    const missing = [...collection.missing].filter(({ isClosing }) => !isClosing).map(({ index }) => index);
    if (missing.length > 0) {
      this.#log.warn({ processes: missing }, 'figures of gateway processes are those of the scrape before');
    }
    return [this.#retired, ...[...this.#members].map(({ figures }) => figures)];
  }

  #collected(member: Member, id: number, figures: readonly MetricData[]): void {
    member.figures = figures;
    const collection = this.#collections.get(id);
    if (collection !== undefined) dropFrom(collection, member);
  }
}

function dropFrom({ missing, done }: Collection, member: Member): void {
  missing.delete(member);
  if (missing.size === 0) done();
}

/** A process that has ended is told nothing: its exit is reported. */
function tell(worker: Worker, message: ToProcess): void {
  if (worker.isConnected()) worker.send(message);
}
