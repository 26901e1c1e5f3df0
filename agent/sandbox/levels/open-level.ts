/** Chooses how strongly this node isolates its workers: the strongest level that works, or the one that is demanded. */
import type { Logger } from 'pino';

import { CapstanError } from '../../../lib/errors.ts';
import type { MissingIsolation, NodeIsolation } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { defaultNetworksOf, type DefaultNetworks } from '../../engine/isolation-guard.ts';
import { noOutbound, openSandbox, type OpenSandboxOptions } from '../bwrap/open-sandbox.ts';
import type { ControlGroups } from '../cgroups/control-groups.ts';
import type { IsolationSetting } from '../isolation-setting.ts';
import type { WorkerLauncher } from '../launcher.ts';
import { PlainLauncher } from '../plain-launcher.ts';
import { usableUidRange, type UidRange } from '../uid-range.ts';
import { openUserLevel, type UserLevel, type UserLevelOptions } from '../user/open-user-level.ts';

export interface OpenLevelOptions {
  readonly setting: IsolationSetting;
  readonly sandbox: Omit<OpenSandboxOptions, 'groups' | 'pids' | 'log'>;
  readonly user: Omit<UserLevelOptions, 'groups' | 'pids' | 'log' | 'uids'> & {
    /** CAPSTAN_WORKER_UIDS. */
    readonly uids: string | undefined;
    readonly agentFolder: string;
  };
  readonly groups: ControlGroups;
  readonly pids: number;
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

export interface OpenedLevel {
  readonly launcher: WorkerLauncher;
  readonly networks: NodeIsolation['processNetworks'];
  readonly defaultNetworks: DefaultNetworks;
  /** Why no stronger level is there. */
  readonly missing: readonly MissingIsolation[];
}

/** Opens a level. Rejects with CONFIG when the demanded one does not work; the message says why and what adds it. */
export async function openLevel(options: OpenLevelOptions): Promise<OpenedLevel> {
  const { setting, groups, pids, log } = options;
  const plain = new PlainLauncher({ groups, pids });
  if (setting === 'none') return onHost(plain, [asked('sandbox', setting)], options);
  const missing: MissingIsolation[] = [];
  if (setting === 'user') missing.push(asked('sandbox', setting));
  else {
    const opened = await openSandbox({ ...options.sandbox, groups, pids, log });
    missing.push(...opened.missing);
    const { launcher, networks = ['host'], defaultNetwork: usual = 'host' } = opened;
    const defaultNetworks = defaultNetworksOf(usual, options.sandbox.network.setting);
    if (launcher !== undefined) return { launcher, networks, defaultNetworks, missing };
    if (setting === 'sandbox') throw demanded(setting, missing);
  }
  const user = await openUser(options);
  if (user.kind === 'available') return onHost(user.launcher, missing, options);
  missing.push(user.missing);
  if (setting === 'user') throw demanded(setting, [user.missing]);
  return onHost(plain, missing, options);
}

/** A level without sandboxes has the host's network only. */
function onHost(launcher: WorkerLauncher, missing: readonly MissingIsolation[], { sandbox }: OpenLevelOptions): OpenedLevel {
  if (sandbox.network.setting === 'outbound')
    throw noOutbound([{ without: 'outbound', reason: 'it requires the level sandbox', remedy: '' }]);
  return { launcher, networks: ['host'], defaultNetworks: { usual: 'host', closed: 'host' }, missing };
}

async function openUser({ user, groups, pids, log }: OpenLevelOptions): Promise<UserLevel> {
  let range: UidRange;
  try {
    range = usableUidRange(user.uids);
  } catch (error) {
    if (user.uids !== undefined) throw error;
    return { kind: 'missing', missing: { without: 'user', reason: messageOf(error), remedy: 'set CAPSTAN_WORKER_UIDS' } };
  }
  return openUserLevel({ ...user, uids: { range, folder: user.agentFolder }, groups, pids, log });
}

function asked(without: string, setting: IsolationSetting): MissingIsolation {
  return { without, reason: `CAPSTAN_ISOLATION is ${setting}`, remedy: 'set CAPSTAN_ISOLATION=auto' };
}

function demanded(setting: IsolationSetting, missing: readonly MissingIsolation[]): CapstanError {
  const reasons = missing.map(({ reason, remedy }) => `${reason}${remedy === '' ? '' : `; ${remedy}`}`).join('. ');
  return new CapstanError('CONFIG', `CAPSTAN_ISOLATION: the level ${setting} does not work on this host: ${reasons}`, {
    field: 'isolation',
  });
}
