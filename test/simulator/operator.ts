/**
 * Whoever runs the simulated fleet, while jobs run: deploys new releases, changes settings, goes
 * back to the build before, removes endpoints, purges queues, changes the webhook secret and the
 * account's level of isolation, and drains, resumes and removes nodes.
 */
import type { IsolationLevel } from '../../lib/isolation.ts';
import type { Command } from '../../scheduler/core/events.ts';
import type { State } from '../../scheduler/core/state.ts';
import { deployed } from './deployed.ts';
import type { World } from './world.ts';

/** What an operator has to do with. */
export interface Reach {
  /** Null while the scheduler is down. */
  image(): State | null;
  command(command: Command): void;
}

const ACCOUNT = 'acc';
const ENVIRONMENT = 'default';
const builds = ['d', 'e', 'f'] as const;

export class Operator {
  readonly #world: World;
  readonly #reach: Reach;
  #change = 0;

  constructor(world: World, reach: Reach) {
    this.#world = world;
    this.#reach = reach;
  }

  /** One change, whichever; what it meets is part of the game. */
  act(): void {
    const { random } = this.#world;
    const image = this.#reach.image();
    if (image === null) return;
    const what = random.next();
    if (what < 0.25) this.deploy();
    else if (what < 0.35) this.#update(image);
    else if (what < 0.52) this.#rollback(image);
    else if (what < 0.59) this.#undeploy(image);
    else if (what < 0.66) this.#purge(image);
    else if (what < 0.71) this.#reach.command({ kind: 'rotate-webhook-secret', account: ACCOUNT, encrypted: `secret ${++this.#change}` });
    else this.#node(image);
  }

  /** The same endpoints with another build or environment: their workers are to be replaced. Removed ones are made anew. */
  deploy(): void {
    const { random } = this.#world;
    const change = ++this.#change;
    const changed = deployed.filter(() => random.chance(0.7));
    if (changed.length === 0) return;
    // Now and then settings alone, which restart nothing.
    const settings = random.chance(0.8) ? { envDigest: `release ${change}` } : { idleTimeoutS: random.int(1, 4) };
    this.#world.trace(`deploys ${change}`);
    const build = random.pick(builds);
    const endpoints = changed.map((endpoint) => ({ ...endpoint, ...settings }));
    this.#reach.command({ kind: 'put-build', account: ACCOUNT, digest: build, size: 1 });
    this.#reach.command({ kind: 'deploy', account: ACCOUNT, environment: ENVIRONMENT, build, endpoints });
  }

  /** Everything is in use again, and no node is too weak. */
  heal(): void {
    if (this.#reach.image()?.accounts.get(ACCOUNT)?.leastIsolation === 'sandbox') this.isolate('none');
    for (const node of this.#reach.image()?.nodes.values() ?? [])
      if (node.config.draining) this.#reach.command({ kind: 'resume-node', node: node.config.id });
  }

  /** The account requires a level from now on: one that a host lacks, or none. */
  isolate(leastIsolation: IsolationLevel): void {
    this.#world.trace(`requires ${leastIsolation}`);
    this.#reach.command({ kind: 'put-account', account: ACCOUNT, quotas: {}, rules: { leastIsolation }, create: false });
  }

  /** Settings without a build; some ask for more workers than the quota has. */
  #update(state: State): void {
    const { random } = this.#world;
    const endpoint = this.#anyOf(state);
    const config = state.endpoints.get(endpoint)?.config;
    const input = deployed.find(({ name }) => name === config?.name);
    if (input === undefined) return;
    const settings = { workersMax: random.int(1, 8), requestsPerWorker: ++this.#change };
    this.#reach.command({ kind: 'update-endpoint', endpoint, input: { ...input, ...settings } });
  }

  #rollback(state: State): void {
    const endpoint = this.#world.random.chance(0.5) ? null : this.#anyOf(state);
    this.#reach.command({ kind: 'rollback', account: ACCOUNT, environment: ENVIRONMENT, endpoint, build: null });
  }

  #undeploy(state: State): void {
    this.#reach.command({ kind: 'undeploy', account: ACCOUNT, endpoints: [this.#anyOf(state)], stopJobs: this.#world.random.chance(0.5) });
  }

  #purge(state: State): void {
    this.#reach.command({ kind: 'purge', endpoint: this.#anyOf(state) });
  }

  #node(state: State): void {
    const { random } = this.#world;
    const nodes = [...state.nodes.keys()];
    if (nodes.length === 0) return;
    const node = random.pick(nodes);
    const what = random.next();
    if (what < 0.5) this.#reach.command({ kind: 'drain-node', node });
    else if (what < 0.85) this.#reach.command({ kind: 'resume-node', node });
    else this.#reach.command({ kind: 'remove-node', node, force: random.chance(0.7) });
  }

  /** Also one that is being removed. */
  #anyOf(state: State): string {
    const ids = [...state.endpoints.keys()];
    return ids.length === 0 ? 'none' : this.#world.random.pick(ids);
  }
}
