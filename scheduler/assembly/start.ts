/** Starts the scheduler: opens its data folder, listens, takes over its queue or stands by for it, and serves gRPC. */
import { pino } from 'pino';

import { CapstanError, errorTable } from '../../lib/errors.ts';
import { serverCredentials } from '../../lib/grpc-tls.ts';
import { visibleText } from '../../lib/visible-text.ts';
import { advertisedAddress } from '../advertise.ts';
import { assemble, type Parts, type SchedulerDeps } from './assemble.ts';
import type { SchedulerConfig } from '../config.ts';
import { Ownership } from './ownership.ts';
import type { Status } from '../standing.ts';

export type { SchedulerDeps, Status };

export interface SchedulerHandle {
  /** Host and port it listens on. */
  readonly address: string;
  /** What it is to its queue now. */
  readonly status: Status;
  /** Calls `watcher` whenever that changes. */
  watch(watcher: (status: Status) => void): void;
  close(): Promise<void>;
}

const CLOSE_WITHIN_MS = 5_000;
/** Nobody waits for a standby but watchers of its health. */
const STANDBY_CLOSE_WITHIN_MS = 500;

/**
 * Starts a scheduler; resolves when it serves, or stands by. Fails with DATA_DIR, DATA_LOST, DATA_NEWER, DISK_FULL, CONFIG
 * or ADDRESS_IN_USE.
 */
export async function start(config: SchedulerConfig, deps: SchedulerDeps = {}): Promise<SchedulerHandle> {
  const log =
    deps.log ??
    pino({ name: 'scheduler', level: config.logLevel, hooks: { streamWrite: visibleText } }, pino.destination({ fd: 2, sync: true }));
  const end = deps.onFatal ?? ((error) => process.exit(errorTable[error instanceof CapstanError ? error.code : 'DATA_DIR'].exit));
  let fatal: unknown;
  const onFatal = (error: unknown): void => {
    fatal ??= error;
    end(error);
  };
  const listenOn = `${config.host}:${config.port}`;
  const credentials = serverCredentials(listenOn, config);
  const parts = await assemble(config, { ...deps, onFatal }, log);
  const { server, standing, cluster } = parts;
  const ownership = new Ownership({ parts, config, log, onFatal });
  standing.watch(({ kind }) => server.setServing(kind === 'owner'));
  const listen = async (): Promise<string> => {
    const bound = await server.bind(listenOn, credentials);
    standing.address = advertisedAddress(config, bound);
    cluster.listening(standing.address);
    return bound;
  };
  let address: string;
  try {
    if (standing.isShared) {
      // Whoever asks a scheduler that does not own the queue is told so, and where the owner is.
      address = await listen();
      await server.preload();
      await ownership.begin();
    } else {
      await ownership.begin();
      address = await listen();
    }
  } catch (error) {
    await server.close(0);
    await closeQueue(parts);
    // What was under way when the store failed is told to try again.
    throw fatal ?? error;
  }
  standing.watch((status) => {
    if (status.kind === 'owner') log.info({ address: standing.address, term: String(status.term) }, 'the queue is served here');
  });
  parts.recorder.start();
  parts.reasonRecorder.start();
  parts.deviceRecorder.start();
  parts.figures.start();
  parts.alerts.start();
  parts.auditExport?.start();
  log.info({ address, dataDir: parts.folder.path, status: standing.status.kind }, 'scheduler started');

  const close = async (): Promise<void> => {
    const stopping = 'the scheduler is stopping';
    const wasServing = !standing.isShared || (await ownership.release());
    // While its calls drain nobody is to count on it: another scheduler that stops would wait for it.
    void cluster.leave();
    parts.closeStreams(standing.refusal() ?? new CapstanError('UNAVAILABLE', stopping));
    await server.close(wasServing ? CLOSE_WITHIN_MS : STANDBY_CLOSE_WITHIN_MS);
    await closeQueue(parts);
    log.info('scheduler stopped');
  };
  let closing: Promise<void> | undefined;
  return {
    address,
    get status() {
      return standing.status;
    },
    watch: (watcher) => standing.watch(watcher),
    close: () => (closing ??= close()),
  };
}

/** Commits what was accepted, and closes the store. */
async function closeQueue({
  disk,
  sender,
  tracing,
  masterKeys,
  engine,
  recorder,
  reasonRecorder,
  deviceRecorder,
  figures,
  alerts,
  auditExport,
  blobs,
  cellWatch,
  store,
  cluster,
  unlock,
}: Parts): Promise<void> {
  blobs.stopSweep();
  disk.close();
  alerts.close();
  await auditExport?.close();
  await sender.cancel();
  await masterKeys.close();
  await recorder.close();
  await reasonRecorder.close();
  await deviceRecorder.close();
  figures.close();
  await engine.close();
  await blobs.close();
  await cellWatch.close();
  await store.close();
  await cluster.close();
  await tracing.close();
  unlock();
}
