/**
 * A scheduler that kills itself in the middle of a rotation of the master key: once it has put the new
 * key in place (or has found at its start that a rotation is unfinished), it lets the core be asked for
 * the time so many more times, and dies of SIGKILL. Without a rotation under way it begins one.
 *
 * node mortal-scheduler.ts <data folder> <times> [<settings, JSON>]
 */
import { join } from 'node:path';
import { existsSync } from 'node:fs';

import { credentials, Metadata } from '@grpc/grpc-js';

import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { readConfig } from '../../scheduler/config.ts';
import { SystemClock } from '../../scheduler/engine/clock.ts';
import type { Now } from '../../scheduler/core/now.ts';
import { prepareDataFolder } from '../../scheduler/secrets/data-folder.ts';
import { start } from '../../scheduler/assembly/start.ts';

const [dataDir = '', times = '0', settings = '{}'] = process.argv.slice(2);
const old = join(dataDir, 'secrets', 'master-key.old');

class MortalClock extends SystemClock {
  #left = Number(times);

  override now(): Now {
    if (existsSync(old) && this.#left-- <= 0) process.kill(process.pid, 'SIGKILL');
    return super.now();
  }
}

const { secrets } = await prepareDataFolder(dataDir, { marksComplete: false });
const scheduler = await start(readConfig({ dataDir, port: 0, logLevel: 'silent', ...(JSON.parse(settings) as object) }, {}), {
  clock: new MortalClock(),
});
if (secrets.olderMasterKeys.length === 0) {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${secrets.apiKey}`);
  new ControlServiceClient(scheduler.address, credentials.createInsecure()).rotateMasterKey({}, metadata, () => undefined);
}
