/**
 * POST /run through a gateway of one, two and four processes (with a scheduler that replies at once) beside a bare fastify echo: requests
 * a second, and processor time a request of all processes of the gateway together:
 *
 *   node bench/gateway-processes.ts [seconds of a window, by default 5] [--rounds 3] [--processes 1,2,4]
 *
 * The windows of a round follow each other. Prints a JSON document with the median of the rounds. Linux only: processor time is read from
 * /proc.
 */
import { parseArgs } from 'node:util';

import { measure, spawn } from './gateway-alone.ts';
import { cpuByRole } from './processes.ts';
import { median } from './figures.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '3' }, processes: { type: 'string', default: '1,2,4' } },
});
const seconds = Number(positionals[0] ?? 5);
const counts = values.processes.split(',').map(Number);
const echo = await spawn('echo');
const scheduler = await spawn('scheduler');
const gateways = await Promise.all(counts.map((count) => spawn('gateway', scheduler.address, count)));
for (const { address } of [echo, ...gateways]) await measure(address, 1);

const used = (pid: number | undefined): number => [...cpuByRole(pid ?? 0).values()].reduce((sum, each) => sum + each, 0);
const windows = gateways.map(() => ({ ratios: [] as number[], micros: [] as number[], bad: 0 }));
for (let round = 0; round < Number(values.rounds); round++) {
  const bare = await measure(echo.address, seconds);
  for (const [at, { child, address }] of gateways.entries()) {
    const before = used(child.pid);
    const run = await measure(address, seconds);
    const window = windows[at];
    window?.ratios.push(run.rate / bare.rate);
    window?.micros.push(((used(child.pid) - before) * 1e6) / (run.rate * seconds));
    if (window !== undefined) window.bad += run.bad;
  }
}
for (const { child } of [echo, scheduler, ...gateways]) child.disconnect();
const figures = windows.map(({ ratios, micros, bad }, at) => ({
  processes: counts[at],
  ratio: Number(median(ratios).toFixed(3)),
  micros: Number(median(micros).toFixed(1)),
  bad,
}));
console.log(JSON.stringify({ figures }));
if (figures.some(({ bad }) => bad > 0)) process.exitCode = 1;
