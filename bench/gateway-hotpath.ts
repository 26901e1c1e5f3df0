/**
 * POST /run through the gateway alone (with a scheduler that replies at once) against a bare fastify echo with the same
 * body, each in its own process; then what a request costs the gateway by stage, in the real service under load:
 *
 *   node bench/gateway-hotpath.ts [seconds of the comparison, by default 5]
 *     [--windows 5] [--seconds 2] [--connections 64]    of the budget by stage
 *
 * Prints a JSON document; the table of the budget goes to stderr. Exits with 1 if any response of it was an error.
 */
import { parseArgs } from 'node:util';

import { BUDGET_LOADS, measureBudget } from './budget/measure.ts';
import { budgetTable } from './budget/table.ts';
import { measure, spawn } from './gateway-alone.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    windows: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
  },
});
const seconds = Number(positionals[0] ?? 5);
const echo = await spawn('echo');
const scheduler = await spawn('scheduler');
const gateway = await spawn('gateway', scheduler.address);
await measure(echo.address, 1);
await measure(gateway.address, 2);
const bare = await measure(echo.address, seconds);
const run = await measure(gateway.address, seconds);
for (const { child } of [echo, scheduler, gateway]) child.disconnect();
const budget = await measureBudget({
  part: 'gateway',
  windows: Number(values.windows),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
});
console.error(budgetTable(budget));
console.log(JSON.stringify({ echo: bare, gateway: run, ratio: Number((run.rate / bare.rate).toFixed(3)), budget }));
if (BUDGET_LOADS.some((name) => budget.loads[name].errors > 0)) process.exitCode = 1;
