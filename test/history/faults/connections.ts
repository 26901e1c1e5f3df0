/** Faults of connections: all connections of a link reset at once, or silent for a while and then reset or resumed. */
import type { Fault, FaultSource } from './fault.ts';

const SILENCE_MS = [500, 12_000] as const;

export const cut: FaultSource = (random, stack) => {
  const link = random.pick([...stack.inner, ...stack.outer.values()]);
  const way = random.pick(['reset', 'silent, then resumed', 'silent, then reset'] as const);
  const [least, most] = SILENCE_MS;
  const lastsMs = way === 'reset' ? 0 : Math.round(least * (most / least) ** random.next());
  return {
    target: `${link.name}: ${way}${lastsMs === 0 ? '' : ` after ${lastsMs} ms`}`,
    lastsMs,
    begin: () => (way === 'reset' ? link.cut() : link.silence()),
    heal: () => {
      if (way === 'silent, then reset') link.cut();
      link.resume();
    },
  } satisfies Fault;
};
