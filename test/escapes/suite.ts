/** The list of attacks at one level, by every attacker, against one world. */
import type { ExecutionContext } from 'ava';

import type { IsolationLevel, WorkerNetwork } from '../../lib/isolation.ts';
import { ATTACKERS } from './attackers.ts';
import { startWorld, type Verdicts, type World } from './world.ts';

export interface Outcomes {
  /** Attacks that must succeed: they show that the attack works where nothing prevents it. */
  readonly succeed: readonly string[];
  /** Attacks that must be refused: these, or all but those. Others may end in either way, by the host. */
  readonly refused: { readonly only: readonly string[] } | { readonly allBut: readonly string[] };
}

export interface Round extends Outcomes {
  /** Chosen from those that the node has. */
  readonly network: (networks: readonly string[]) => WorkerNetwork;
  /** Names; default: all attackers. */
  readonly attackers?: readonly string[];
}

export interface Expected {
  readonly rounds: readonly Round[];
  /** Whether a release's command may be a program of the host. */
  readonly runsProgramOfHost: boolean;
  readonly losesDecoy: boolean;
}

/** The least number of attacks that every attacker must have tried. */
const LEAST = 75;

export async function attackLevel(t: ExecutionContext, level: IsolationLevel, expected: Expected): Promise<void> {
  t.timeout(300_000);
  const world = await startWorld(t, level);
  for (const round of expected.rounds) await attackRound(t, world, round);
  t.is(await world.lostDecoy(), expected.losesDecoy);
  t.is(await world.runsProgramOfHost(), expected.runsProgramOfHost);
  t.deepEqual(await world.damage(), []);
}

async function attackRound(t: ExecutionContext, world: World, round: Round): Promise<void> {
  const network = round.network(world.networks);
  for (const attacker of ATTACKERS) {
    if (round.attackers?.includes(attacker.name) === false) continue;
    const verdicts = await world.attack(attacker, network);
    t.true(Object.keys(verdicts).length >= LEAST, `${attacker.name} tried ${Object.keys(verdicts).length}`);
    t.deepEqual(wrong(verdicts, round), [], `${attacker.name}, network ${network}`);
    if (attacker.release.functions === undefined) t.deepEqual(await world.attackChannel(attacker, network), [], attacker.name);
    t.deepEqual(await world.damage(), [], `after ${attacker.name}`);
    t.deepEqual(await world.survivors(), [], `left by ${attacker.name}`);
  }
}

function wrong(verdicts: Verdicts, outcomes: Outcomes): string[] {
  const { succeed, refused } = outcomes;
  const missing = [...succeed, ...('only' in refused ? refused.only : refused.allBut)].filter((name) => verdicts[name] === undefined);
  return [
    ...missing.map((name) => `${name}: not tried`),
    ...Object.entries(verdicts).flatMap(([name, { verdict, detail }]) => {
      const required = requiredOf(name.replace(/^directly: /, ''), outcomes);
      return verdict === 'broken' || (required !== undefined && required !== verdict) ? [`${name}: ${verdict}: ${detail}`] : [];
    }),
  ];
}

function requiredOf(name: string, { succeed, refused }: Outcomes): 'succeeded' | 'refused' | undefined {
  if (succeed.includes(name)) return 'succeeded';
  const isRefused = 'only' in refused ? refused.only.includes(name) : !refused.allBut.includes(name);
  return isRefused ? 'refused' : undefined;
}
