/** Faults of networks: an agent in a network namespace of its own loses its link to the scheduler, in one direction or both, without a word to either side. */
import { execFileSync } from 'node:child_process';

import type { Site } from '../stack/stack.ts';
import type { FaultSource } from './fault.ts';

const LASTS_MS = [500, 20_000] as const;

export class Network {
  readonly #name = `capstan-history-${process.pid}`;
  readonly #near = `ch${process.pid}n`;
  readonly #far = `ch${process.pid}f`;
  /** Two hosts; the second byte pair keeps runs apart that happen at once. */
  readonly #net = `10.${200 + (process.pid % 50)}.${(process.pid >> 6) & 255}`;

  constructor() {
    ip('netns', 'add', this.#name);
    ip('link', 'add', this.#near, 'type', 'veth', 'peer', 'name', this.#far, 'netns', this.#name);
    ip('addr', 'add', `${this.#net}.1/30`, 'dev', this.#near);
    ip('link', 'set', this.#near, 'up');
    ip('-n', this.#name, 'addr', 'add', `${this.#net}.2/30`, 'dev', this.#far);
    ip('-n', this.#name, 'link', 'set', this.#far, 'up');
    ip('-n', this.#name, 'link', 'set', 'lo', 'up');
  }

  get site(): Site {
    return { prefix: ['ip', 'netns', 'exec', this.#name], host: `${this.#net}.1` };
  }

  /** Address of what runs in the namespace. */
  get address(): string {
    return `${this.#net}.2`;
  }

  /** Drops all packets, in both directions. */
  cut(): void {
    this.#each(['INPUT', 'OUTPUT'], '-A');
  }

  /** Ends {@link cut}. */
  mend(): void {
    this.#each(['INPUT', 'OUTPUT'], '-D');
  }

  readonly source: FaultSource = (random) => {
    const chains = random.pick([['INPUT', 'OUTPUT'], ['INPUT'], ['OUTPUT']] as const);
    const [least, most] = LASTS_MS;
    const lastsMs = Math.round(least * (most / least) ** random.next());
    return {
      target: `agent-c drops ${chains.join(' and ')} for ${lastsMs} ms`,
      lastsMs,
      begin: () => this.#each(chains, '-A'),
      heal: () => this.#each(chains, '-D'),
    };
  };

  close(): void {
    ip('netns', 'del', this.#name);
  }

  #each(chains: readonly string[], operation: '-A' | '-D'): void {
    for (const chain of chains) {
      const device = chain === 'INPUT' ? '-i' : '-o';
      ip('netns', 'exec', this.#name, 'iptables', '-w', operation, chain, device, this.#far, '-j', 'DROP');
    }
  }
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
