/** A budget as a table in Markdown, for docs/benchmarks.md. Pure. */
import { BUDGET_LOADS, type Budget, type LoadBudget } from './measure.ts';
import { STAGES, type Stage } from './stages.ts';

/** A row for each stage that any load has: µs and bytes a request. */
export function budgetTable({ part, at, machine, connections, loads }: Budget): string {
  const all = BUDGET_LOADS.map((name) => loads[name]);
  const stages = STAGES.filter((stage) => all.some((load) => load.stages[stage] !== undefined));
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const sum = ({ stages: costs }: LoadBudget): number => Object.values(costs).reduce((bytes, cost) => bytes + cost.bytes, 0);
  return [
    `${part}, ${at.slice(0, 10)}, ${machine.cores} × ${machine.cpu}, Node ${machine.node}, load ${machine.load[0]?.toFixed(1) ?? '?'}, ${connections} connections`,
    '',
    row(['Stage', ...BUDGET_LOADS.map((name) => `/${name}`)]),
    row(['---', ...BUDGET_LOADS.map(() => '---')]),
    ...stages.map((stage) => row([stage, ...all.map((load) => costOf(load, stage))])),
    row(['**main thread**', ...all.map((load) => `**${load.mainUs.toFixed(1)} µs**, ${Math.round(sum(load))} B`)]),
    row(['all threads', ...all.map((load) => `${load.processUs.toFixed(1)} µs`)]),
  ].join('\n');
}

function costOf({ stages }: LoadBudget, stage: Stage): string {
  const cost = stages[stage];
  return cost === undefined ? '' : `${cost.us.toFixed(1)} µs, ${Math.round(cost.bytes)} B`;
}
