/** Takes the queue over: waits as a standby while another scheduler owns it, and checks that this one may serve it. */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import type { Logger } from 'pino';

import { DEFAULT_CELL } from '../lib/cells.ts';
import { CapstanError } from '../lib/errors.ts';
import { KeyScope } from '../proto/gen/capstan/v1/control.ts';
import type { Parts } from './assembly/assemble.ts';
import { requireSharedBlobs, type SchedulerConfig } from './config.ts';
import type { Clock } from './engine/clock.ts';
import type { Engine } from './engine/engine.ts';
import { Cipher } from './secrets/cipher.ts';
import type { DataFolder, Secrets } from './secrets/data-folder.ts';
import { hashKey } from './secrets/hash.ts';
import { DEFAULT_ACCOUNT } from './services/auth.ts';
import { keyRow } from './services/key-service.ts';

/** How often a standby looks whether the queue has an owner, ms. */
const STANDBY_LOOK_MS = 500;

/** Resolves once this scheduler owns the queue and everything is in place to serve it. */
export async function takeOver(
  { engine, folder, clock, masterKeys, cells, cellWatch }: Parts,
  config: SchedulerConfig,
  log: Logger,
): Promise<void> {
  await cellWatch.start();
  await acquire(engine, config, log);
  refuseForeignKey(engine.state.masterKey?.id ?? (await cells?.masterKeyId()), folder);
  // The operator's key and the join token of the data folder are those of the first cell.
  if (cellWatch.own === DEFAULT_CELL) await bootstrap(engine, folder.secrets, clock);
  await masterKeys.recover();
}

/** Takes the queue over; a standby waits until its owner is gone. */
async function acquire(engine: Engine, config: SchedulerConfig, log: Logger): Promise<void> {
  for (let told = ''; ;) {
    try {
      await engine.takeOver();
      return;
    } catch (error) {
      const isHeld = error instanceof CapstanError && error.code === 'CONFLICT';
      const isAway = told !== '' && error instanceof CapstanError && error.code === 'UNAVAILABLE';
      if (!isHeld && !isAway) throw error;
      requireSharedBlobs(config, error.message);
      if (told !== error.message) log.info(`standby: ${error.message}`);
      told = error.message;
      await pause(STANDBY_LOOK_MS);
    }
  }
}

/** A folder of new secrets beside a queue that has others: its values would be lost to this scheduler, and its clients locked out. */
function refuseForeignKey(present: string | undefined, { path, created, secrets }: DataFolder): void {
  if (present === undefined || !created.masterKey || present === new Cipher(secrets.masterKey, []).keyId) return;
  throw new CapstanError(
    'CONFIG',
    `${join(path, 'secrets')}: was created anew, but the queue is encrypted with another master key; copy the folder from the scheduler that owns the queue`,
  );
}

/**
 * Creates the first key and join token. The first key has the scope OPERATOR, because read access to the data folder
 * already permits operating the service. A key of the folder that was revoked later is not created again.
 */
async function bootstrap(engine: Engine, secrets: Secrets, clock: Clock): Promise<void> {
  if (engine.state.keys.size === 0) {
    const scope = { scope: KeyScope.OPERATOR, endpoints: [], environment: '' };
    const key = keyRow(secrets.apiKey, { account: DEFAULT_ACCOUNT, name: 'first key', ...scope }, clock.now().wall, null);
    await engine.command({ kind: 'put-key', key });
  }
  await engine.command({ kind: 'put-join-token', hash: hashKey(secrets.joinToken).toString('hex') });
}
