/**
 * Takes the queue over, stands by while another scheduler owns it, and gives it up in good order.
 *
 * A scheduler that lost the queue goes on as a standby in the same process. The engine has dropped the state and ended every
 * stream by then; everything else that the process holds (keys, blobs, connections) belongs to the installation and not to a
 * term, and what must be true of an owner is made so at each take-over.
 */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import type { Logger } from 'pino';

import { DEFAULT_CELL } from '../../lib/cells.ts';
import { CapstanError } from '../../lib/errors.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { Parts } from './assemble.ts';
import { requireSharedBlobs, type SchedulerConfig } from '../config.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { Role } from '../engine/engine-options.ts';
import { Cipher } from '../secrets/cipher.ts';
import type { DataFolder } from '../secrets/data-folder.ts';
import { hashKey } from '../secrets/hash.ts';
import { DEFAULT_ACCOUNT } from '../services/auth.ts';
import { keyRow } from '../services/key-service.ts';

/** How long a stopping owner waits for the next one's address, ms, and how often it looks. */
const SUCCESSOR_MS = 1_000;
const SUCCESSOR_LOOK_MS = 20;

export interface OwnershipOptions {
  readonly parts: Parts;
  readonly config: SchedulerConfig;
  readonly log: Logger;
  /** The queue is owned and cannot be served: the process must end. */
  readonly onFatal: (error: unknown) => void;
}

export class Ownership {
  readonly #options: OwnershipOptions;
  readonly #parts: Parts;
  /** Counts roles: what began under an earlier one is out of date. */
  #roles = 0;
  #preparing: Promise<void> = Promise.resolve();
  #isPrepared = false;
  #isBegun = false;

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#parts = options.parts;
    this.#parts.standing.onRole = (role) => this.#roleChanged(role);
  }

  /** Resolves once this scheduler serves the queue, or knows that it is a standby. */
  async begin(): Promise<void> {
    const { engine, standing, cellWatch } = this.#parts;
    try {
      await cellWatch.start();
      await engine.takeOver();
      await this.#preparing;
    } catch (error) {
      if (!standing.isShared || !(error instanceof CapstanError) || error.code !== 'CONFLICT') throw error;
      requireSharedBlobs(this.#options.config, error.message);
      engine.standBy(error);
    } finally {
      this.#isBegun = true;
    }
  }

  /**
   * Gives the queue up: nothing more is accepted, what was accepted is committed and answered, and then a standby may serve.
   * Resolves when it is known which one, if there is any, with whether there was anything to give up.
   */
  async release(): Promise<boolean> {
    const { engine, standing, blobs, sender, masterKeys, store, cell } = this.#parts;
    const before = standing.status;
    standing.become({ kind: 'stopping', ...('owner' in before ? { owner: before.owner } : {}) });
    blobs.stopSweep();
    await sender.cancel();
    await masterKeys.close();
    await engine.close();
    try {
      // A standby may have got the queue a moment ago.
      await store.release(cell);
      if (before.kind === 'owner') await this.#awaitSuccessor();
    } catch (error) {
      // Its lock ends with its connection: a standby takes over then.
      this.#options.log.warn({ err: error }, 'the queue could not be released cleanly');
    }
    return before.kind === 'owner';
  }

  async #awaitSuccessor(): Promise<void> {
    const { standing, cells, cluster } = this.#parts;
    if (cells === null) return;
    const own = (await cluster.list()).cells.find(({ name }) => name === cells.own);
    if (own?.standbys === 0) return;
    for (const until = performance.now() + SUCCESSOR_MS; performance.now() < until;) {
      const owner = (await cells.list()).find(({ name }) => name === cells.own)?.address ?? '';
      if (owner !== '' && owner !== standing.address) {
        standing.become({ kind: 'stopping', owner });
        return;
      }
      await pause(SUCCESSOR_LOOK_MS);
    }
  }

  #roleChanged(role: Role): void {
    const { standing, blobs } = this.#parts;
    const { log, onFatal } = this.#options;
    this.#roles++;
    switch (role.kind) {
      case 'owner':
        this.#preparing = this.#prepare(role.term, this.#roles);
        this.#preparing.catch((error: unknown) => {
          // At the start its caller gets the error; the engine itself recovers from what may pass.
          if (!this.#isBegun || (error instanceof CapstanError && error.code === 'UNAVAILABLE')) return;
          log.error({ err: error }, 'the queue cannot be served');
          onFatal(error);
        });
        return;
      case 'standby':
        log.info(`standby: ${role.heldBy}`);
        standing.become({ kind: 'standby', ...(role.owner === undefined ? {} : { owner: role.owner }) });
        return;
      case 'lost':
        if (standing.isShared) {
          blobs.stopSweep();
          standing.become({ kind: 'standby' });
        }
    }
  }

  /** Makes true what must be true of an owner, then serves. */
  async #prepare(term: bigint, roles: number): Promise<void> {
    const { engine, folder, clock, masterKeys, standing, blobs, cells, cellWatch } = this.#parts;
    // Nobody else changes what the only scheduler of a queue has prepared once.
    if (standing.isShared || !this.#isPrepared) {
      refuseForeignKey(engine.state.masterKey?.id ?? (await cells?.masterKeyId()), folder);
      // The operator's key and the join token of the data folder are those of the first cell.
      if (cellWatch.own === DEFAULT_CELL) await bootstrap(engine, folder, { clock, isShared: standing.isShared, log: this.#options.log });
      await masterKeys.recover();
      this.#isPrepared = true;
    }
    if (roles !== this.#roles) return;
    standing.become({ kind: 'owner', term });
    blobs.startSweep(engine);
  }
}

/** A folder of new secrets beside a queue that has others: its values would be lost to this scheduler, and its clients locked out. */
function refuseForeignKey(present: string | undefined, { path, created, secrets }: DataFolder): void {
  if (present === undefined || !created.masterKey || present === new Cipher(secrets.masterKey, []).keyId) return;
  throw new CapstanError(
    'CONFIG',
    `${join(path, 'secrets')}: was re-created, but the queue is encrypted with another master key; copy the folder from the scheduler that owns the queue`,
  );
}

interface BootstrapDeps {
  readonly clock: Clock;
  readonly isShared: boolean;
  readonly log: Logger;
}

/** Nodes that may join with the token in the data folder. */
const FOLDER_TOKEN_USES = 10_000;

/**
 * Creates the first key and join token. The first key has the scope OPERATOR, because read access to the data folder
 * already permits operating the service. A key of the folder that was revoked later is not created again.
 */
async function bootstrap(engine: Engine, { path, secrets }: DataFolder, { clock, isShared, log }: BootstrapDeps): Promise<void> {
  if (engine.state.keys.size === 0) {
    const scope = { scope: KeyScope.OPERATOR, endpoints: [], environment: '' };
    const key = keyRow(secrets.apiKey, { account: DEFAULT_ACCOUNT, name: 'first key', ...scope }, clock.now().wall, null);
    await engine.command({ kind: 'put-key', key });
  }
  const joinToken = hashKey(secrets.joinToken).toString('hex');
  // The folder of a standby adds no token to those of the queue.
  if (!isShared || engine.state.joinTokens.size === 0)
    await engine.command({ kind: 'put-join-token', hash: joinToken, maxUses: FOLDER_TOKEN_USES, isOfFolder: true });
  else if (!engine.state.joinTokens.has(joinToken))
    log.warn(
      { file: join(path, 'secrets', 'join-token') },
      'the join token in this folder does not belong to this queue; hosts cannot join with it',
    );
}
