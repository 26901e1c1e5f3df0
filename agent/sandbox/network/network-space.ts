/**
 * One network namespace for one worker. pasta makes it and carries its connections: it is an ordinary program of a user
 * without rights, so this host's own network is not changed. Its command loads the firewall, says so, and waits for the
 * end of its input, which comes with the end of the agent.
 *
 * ```
 * agent ── pasta (host's network) ── sh (namespace), entered by nsenter for each sandbox
 * ```
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';

import { CapstanError } from '../../../lib/errors.ts';
import { isErrno } from '../../../lib/to-error.ts';
import { withoutInherited } from '../host/descriptors.ts';
import { RESOLVER } from './firewall.ts';

/** `$1`: nft, `$2`: the rules, which are no secret. */
const INSIDE = 'printf %s "$2" | "$1" -f - && echo ready && exec cat >/dev/null';
/** Makes the device that pasta opens usable for its user, in a mount namespace of its own. */
const WITH_TUN = 'mount -t tmpfs -o mode=0755,size=64k tun /dev/net && mknod -m 0666 /dev/net/tun c 10 200 && exec "$@"';
const READY_MS = 10_000;
const LONGEST_COMPLAINT = 500;
/** State of a socket in /proc/net/tcp. */
const LISTENS = '0A';
const CLEAN = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

export interface NetworkTools {
  readonly pasta: string;
  readonly nft: string;
  readonly nsenter: string;
  readonly setpriv: string;
  readonly unshare: string;
}

export interface NetworkSpaceOptions {
  readonly tools: NetworkTools;
  /** The user of pasta where the agent is root; otherwise it is the agent's. */
  readonly uid: number | undefined;
  /**
   * The words with which a command line runs in the user namespace that spares share, where the agent is not root: the network belongs
   * to that one then. Absent: pasta makes a user namespace, too.
   */
  readonly within?: readonly string[] | undefined;
  /** The firewall's rules. */
  readonly rules: string;
  /** Ports of this host's loopback address that the namespace reaches at its own. */
  readonly reached: readonly number[];
  /** Ports of the namespace that this host reaches at 127.0.0.1. */
  readonly published: readonly number[];
}

export class NetworkSpace {
  readonly #pasta: ChildProcess;
  readonly #tools: NetworkTools;
  readonly #isRoot: boolean;
  readonly #pid: number;
  #over = false;

  private constructor(pasta: ChildProcess, { tools, uid }: NetworkSpaceOptions, pid: number) {
    this.#pasta = pasta;
    this.#tools = tools;
    this.#isRoot = uid !== undefined;
    this.#pid = pid;
    pasta.once('exit', () => (this.#over = true));
  }

  /** Rejects with UNAVAILABLE; the message says what pasta or nft said. */
  static async open(options: NetworkSpaceOptions): Promise<NetworkSpace> {
    const pasta = start(options);
    let said = '';
    const note = (data: Buffer): void => {
      if (said.length < LONGEST_COMPLAINT) said += data.toString('utf8');
    };
    pasta.stderr?.on('data', note);
    const ready = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => ready.resolve(false), READY_MS);
    pasta.stdout?.once('data', () => ready.resolve(true));
    pasta.once('error', (error) => {
      said += error.message;
      ready.resolve(false);
    });
    pasta.once('exit', () => ready.resolve(false));
    pasta.stdin?.on('error', () => undefined);
    const isReady = await ready.promise;
    clearTimeout(timer);
    const pid = isReady && pasta.pid !== undefined ? firstChildOf(pasta.pid) : undefined;
    if (pid !== undefined) return new NetworkSpace(pasta, options, pid);
    pasta.stdin?.destroy();
    endGroup(pasta);
    const why = said.split('\n').find((line) => line.trim() !== '' && !line.startsWith('Failed to send')) ?? 'pasta did not become ready';
    throw new CapstanError('UNAVAILABLE', `no network for a worker: ${why.trim()}`);
  }

  get works(): boolean {
    return !this.#over;
  }

  /** The words with which a command line runs in the namespace. */
  get enter(): readonly string[] {
    const user = this.#isRoot ? [] : ['--user', '--preserve-credentials'];
    return [this.#tools.nsenter, ...user, '--net', '--target', String(this.#pid), '--'];
  }

  /** The same from within the user namespace of its network, which cannot be entered twice. */
  get enterAgain(): readonly string[] {
    return [this.#tools.nsenter, '--net', '--target', String(this.#pid), '--'];
  }

  /**
   * Returns whether something in the namespace listens on a port. pasta accepts connections to a published port also where
   * nothing does.
   */
  listens(port: number): boolean {
    const wanted = port.toString(16).toUpperCase().padStart(4, '0');
    return ['tcp', 'tcp6'].some((table) =>
      readTable(this.#pid, table)
        .split('\n')
        .some((line) => {
          const [, local = '', , state] = line.trim().split(/\s+/);
          return state === LISTENS && local.endsWith(`:${wanted}`);
        }),
    );
  }

  /** Ends pasta; nothing in the namespace reaches anything from then on. Never rejects. */
  async close(): Promise<void> {
    if (this.#over) return;
    const gone = once(this.#pasta, 'close');
    endGroup(this.#pasta);
    await gone;
  }
}

function start({ tools, uid, within = [], rules, reached, published }: NetworkSpaceOptions): ChildProcess {
  const ports = (list: readonly number[], address = ''): string => (list.length === 0 ? 'none' : `${address}${list.join(',')}`);
  const pasta = [
    ...within,
    tools.pasta,
    ...(within.length > 0 ? ['--netns-only'] : []),
    ...['--foreground', '--quiet', '--config-net', '--no-map-gw'],
    ...['--tcp-ports', ports(published, '127.0.0.1/'), '--udp-ports', 'none', '--tcp-ns', ports(reached), '--udp-ns', 'none'],
    ...['--dns-forward', RESOLVER],
    ...['--', '/bin/sh', '-c', INSIDE, 'sh', tools.nft, rules],
  ];
  const asRoot = [tools.unshare, '--mount', '--propagation', 'private', '/bin/sh', '-c', WITH_TUN, 'sh'];
  const drop = (user: number): string[] => [tools.setpriv, `--reuid=${user}`, `--regid=${user}`, '--clear-groups', '--'];
  const [command = '', ...args] = uid === undefined ? pasta : [...asRoot, ...drop(uid), ...pasta];
  return withoutInherited(['pipe', 'pipe', 'pipe'], (stdio) => spawn(command, args, { stdio, cwd: '/', env: CLEAN, detached: true }));
}

/** Empty once the namespace is gone, or without IPv6. */
function readTable(pid: number, table: string): string {
  try {
    return readFileSync(`/proc/${pid}/net/${table}`, 'latin1');
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ESRCH', 'EINVAL')) return '';
    throw error;
  }
}

/** Ends pasta with the first process of its namespace, which does not end with it. */
function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

function firstChildOf(pid: number): number | undefined {
  try {
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return child === undefined || child === '' ? undefined : Number(child);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ESRCH')) return undefined;
    throw error;
  }
}
