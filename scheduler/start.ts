/** Starts the scheduler: opens its data folder, takes over its queue, and serves gRPC. */
import { pino } from 'pino';

import { serverCredentials } from '../lib/grpc-tls.ts';
import { visibleText } from '../lib/visible-text.ts';
import { assemble, type Parts, type SchedulerDeps } from './assembly/assemble.ts';
import type { SchedulerConfig } from './config.ts';
import { takeOver } from './take-over.ts';

export type { SchedulerDeps };

export interface SchedulerHandle {
  /** Host and port it listens on. */
  readonly address: string;
  close(): Promise<void>;
}

const CLOSE_WITHIN_MS = 5_000;

/**
 * Starts a scheduler; resolves when it serves. Fails with DATA_DIR, DATA_LOST, DATA_NEWER, DISK_FULL, CONFIG or
 * ADDRESS_IN_USE.
 */
export async function start(config: SchedulerConfig, deps: SchedulerDeps = {}): Promise<SchedulerHandle> {
  const log =
    deps.log ??
    pino({ name: 'scheduler', level: config.logLevel, hooks: { streamWrite: visibleText } }, pino.destination({ fd: 2, sync: true }));
  const listenOn = `${config.host}:${config.port}`;
  const credentials = serverCredentials(listenOn, config);
  const parts = await assemble(config, deps, log);
  const { server, blobs, engine, disk } = parts;
  let address: string;
  try {
    await takeOver(parts, config, log);
    address = await server.bind(listenOn, credentials);
  } catch (error) {
    disk.close();
    await closeQueue(parts);
    throw error;
  }
  parts.cluster.listening(address);
  server.setServing(true);
  blobs.startSweep(engine);
  log.info({ address, dataDir: parts.folder.path }, 'scheduler started');

  return {
    address,
    close: async () => {
      blobs.stopSweep();
      disk.close();
      parts.closeStreams('the scheduler is stopping');
      await server.close(CLOSE_WITHIN_MS);
      await closeQueue(parts);
      log.info('scheduler stopped');
    },
  };
}

/** Commits what was accepted, and closes the store. */
async function closeQueue({ sender, masterKeys, engine, blobs, cellWatch, store, cluster }: Parts): Promise<void> {
  await sender.cancel();
  await masterKeys.close();
  await engine.close();
  await blobs.close();
  await cellWatch.close();
  await store.close();
  await cluster.close();
}
