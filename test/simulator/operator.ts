/** Whoever runs the simulated fleet: deploys new releases, drains, resumes and removes nodes while jobs run. */
import type { Command } from '../../scheduler/core/events.ts';
import type { Image } from '../../scheduler/core/image.ts';
import type { EndpointInput } from '../../scheduler/core/image/endpoints.ts';
import type { World } from './world.ts';

/** What an operator has to do with. */
export interface Reach {
  /** Null while the scheduler is down. */
  image(): Image | null;
  command(command: Command): void;
  endpoints(): readonly EndpointInput[];
}

export class Operator {
  readonly #world: World;
  readonly #reach: Reach;
  #release = 0;

  constructor(world: World, reach: Reach) {
    this.#world = world;
    this.#reach = reach;
  }

  /** One change, whichever; what it meets is part of the game. */
  act(): void {
    const { random } = this.#world;
    const nodes = [...(this.#reach.image()?.nodes.values() ?? [])];
    if (nodes.length === 0) return;
    const { id } = random.pick(nodes).config;
    const what = random.next();
    if (what < 0.4) this.deploy();
    else if (what < 0.7) this.#reach.command({ command: 'drain-node', node: id });
    else if (what < 0.9) this.#reach.command({ command: 'resume-node', node: id });
    else this.#reach.command({ command: 'remove-node', node: id, force: random.chance(0.7) });
  }

  /** The same endpoints with another environment: their workers are to be replaced. */
  deploy(): void {
    const { random } = this.#world;
    const release = ++this.#release;
    const changed = this.#reach.endpoints().filter(() => random.chance(0.7));
    if (changed.length === 0) return;
    // Now and then settings alone, which restart nothing.
    const envDigest = random.chance(0.8) ? { envDigest: `release ${release}` } : { idleTimeoutS: random.int(1, 4) };
    this.#world.trace(`deploys ${release}`);
    const build = { digest: 'd', size: 1, createdAt: 0 };
    const endpoints = changed.map((endpoint) => ({ ...endpoint, ...envDigest }));
    this.#reach.command({ command: 'deploy', account: 'acc', environment: 'default', build, endpoints });
  }

  /** Everything is in use again. */
  heal(): void {
    for (const node of this.#reach.image()?.nodes.values() ?? [])
      if (node.config.draining) this.#reach.command({ command: 'resume-node', node: node.config.id });
  }
}
