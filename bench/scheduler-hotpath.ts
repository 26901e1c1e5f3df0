/**
 * What a request costs the scheduler, by stage, in the real service under load:
 *
 *   node bench/scheduler-hotpath.ts [--windows 5] [--seconds 2] [--connections 64]
 *
 * Prints a JSON document; the table goes to stderr. Exits with 1 if any response was an error.
 */
import { parseArgs } from 'node:util';

import { BUDGET_LOADS, measureBudget } from './budget/measure.ts';
import { budgetTable } from './budget/table.ts';

const { values } = parseArgs({
  options: {
    windows: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
  },
});
const budget = await measureBudget({
  part: 'scheduler',
  windows: Number(values.windows),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
});
console.error(budgetTable(budget));
console.log(JSON.stringify(budget));
if (BUDGET_LOADS.some((name) => budget.loads[name].errors > 0)) process.exitCode = 1;
