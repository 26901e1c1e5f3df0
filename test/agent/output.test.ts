/** What a job prints stands in nobody's way: a flood of output is bounded, its beginning and its end are kept. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import test from 'ava';

import { OUTPUT_BURST, OUTPUT_KEPT, OUTPUT_PER_SECOND, OutputLimiter } from '../../agent/runtimes/output-limiter.ts';
import { OutputBudget } from '../../agent/runtimes/output-budget.ts';
import { linesOf, WorkerOutput } from '../../agent/runtimes/worker-output.ts';
import { storedLog } from '../support/worker-logs.ts';
import { functionSpec, startWorker } from './fixtures.ts';

/** 100 MB. */
const LINES = 100_000;
const LINE = 1_000;

const source = {
  'main.js': `
export function flood() {
  for (let line = 1; line <= ${LINES}; line += 1) process.stdout.write(\`line \${line} \`.padEnd(${LINE - 1}, 'x') + '\\n');
  return 'done';
}`,
  'main.py': `
import sys
def flood():
    for line in range(1, ${LINES} + 1):
        sys.stdout.write(("line %d " % line).ljust(${LINE - 1}, "x") + "\\n")
    return "done"
`,
};

for (const [name, runtime, module] of [
  ['thread', 'thread', 'main.js'],
  ['node', 'process', 'main.js'],
  ['python', 'process', 'main.py'],
] as const) {
  test.serial(`${name}: 100 MB of output are bounded before they reach the agent, and the result follows them`, async (t) => {
    const release = { runtime, functions: [functionSpec('flood', module)] };
    const { scheduler, agent } = await startWorker(t, source, 'flood', release);
    const begun = performance.now();
    scheduler.dispatch({ jobId: 'j1' });
    const { outcome, output } = await scheduler.ended('j1');
    const seconds = (performance.now() - begun) / 1_000;
    t.is(outcome, 'ATTEMPT_OUTCOME_COMPLETED');
    t.is(scheduler.valueOf(output), 'done');
    // What came before the result is in the log with it.
    scheduler.send({ $case: 'logs', value: { requestId: 7, endpointId: 'ep1', workerId: 'w1', limit: 1_000, afterMs: 0n } });
    const { lines } = await scheduler.hear('logs', ({ requestId }) => requestId === 7);
    t.true(lines.at(-1)?.text.startsWith(`line ${LINES} `), lines.at(-1)?.text.slice(0, 40));
    // The answer has the last lines alone: all that left the worker is in the file.
    await agent.close();
    const log = await storedLog(join(agent.dataDir, 'agent/logs'), 'ep1');
    t.regex(log, / characters of output are omitted/);
    const sent = (log.match(/"line \d+ x+"/g)?.length ?? 0) * LINE;
    t.true(sent >= OUTPUT_KEPT, `${sent} characters were sent`);
    t.true(sent <= OUTPUT_BURST + 2 * OUTPUT_KEPT + seconds * OUTPUT_PER_SECOND, `${sent} characters were sent in ${seconds} s`);
  });
}

test('the limiter: a burst, then so much a second; beyond it the newest, with a count of the rest', (t) => {
  let now = 0;
  const sent: string[] = [];
  const limiter = new OutputLimiter(
    (_stream, jobId, text) => void sent.push(`${jobId} ${text}`),
    () => now,
  );
  const take = (): string[] => sent.splice(0);
  const piece = 16 * 1024;
  for (let left = OUTPUT_BURST; left > 0; left -= piece) limiter.add('stdout', 'a', 'x'.repeat(piece));
  t.is(take().length, OUTPUT_BURST / piece, 'a burst leaves at once');
  limiter.add('stdout', 'a', 'waits\n');
  t.deepEqual(take(), []);
  limiter.flush();
  t.deepEqual(take(), ['a waits\n'], 'the end of a job lets it out');
  now += 1_000;
  limiter.add('stderr', 'b', 'again\n');
  t.deepEqual(take(), ['b again\n'], 'its budget came back');
  for (let n = 0; n < 10_000; n += 1) limiter.add('stdout', 'c', `${String(n).padEnd(999, '.')}\n`);
  const burst = take().length;
  limiter.flush();
  const rest = take().join('');
  t.true(burst <= 1_050 && rest.length <= 2 * OUTPUT_KEPT);
  t.true(rest.includes('c 9999'.slice(2)) && rest.endsWith('\n'));
  const [, count] = /\((\d+) characters of output are omitted/.exec(rest) ?? [];
  t.true(Number(count) > 8_000_000);
  // Floods of many jobs in a row keep their ends only.
  for (let n = 0; n < 10_000; n += 1) limiter.add('stdout', 'd', `${String(n).padEnd(999, '.')}\n`);
  limiter.flush();
  t.true(take().join('').length <= OUTPUT_KEPT + 16 * 1024);
});

test('workers of an account print together no more than its budget, and each no more than its own', (t) => {
  let now = 0;
  const clock = (): number => now;
  const shared = new OutputBudget({ burst: 2 * OUTPUT_BURST, perSecond: 2 * OUTPUT_PER_SECOND }, clock);
  const limits = { burst: OUTPUT_BURST, perSecond: OUTPUT_PER_SECOND, shared };
  const line = `${'x'.repeat(16 * 1024 - 1)}\n`;
  const sent = [0, 0, 0, 0];
  const workers = sent.map(
    (_, at) => new OutputLimiter((_stream, _jobId, text) => void (sent[at] = (sent[at] ?? 0) + text.length), clock, limits),
  );
  for (let n = 0; n < 200; n += 1) for (const worker of workers) worker.add('stdout', '', line);
  t.true(sent.reduce((sum, each) => sum + each) <= 2 * OUTPUT_BURST, `${sent.join(' ')} characters`);
  t.true(sent.every((each) => each > 0 && each <= OUTPUT_BURST));
  now += 1_000;
  // What was not sent before is kept by its worker: the budget of others has recovered.
  const calm = new OutputLimiter((_stream, _jobId, text) => t.is(text, 'calm\n'), clock, limits);
  calm.add('stdout', '', 'calm\n');
});

test('workers of an account print together the lines of one, whatever characters they have left', (t) => {
  const clock = (): number => 0;
  const shared = new OutputBudget({ burst: 4 * OUTPUT_BURST, perSecond: 4 * OUTPUT_PER_SECOND }, clock);
  let lines = 0;
  const count = (_stream: string, _jobId: string, text: string): void => void (lines += text.length);
  const limits = { burst: OUTPUT_BURST, perSecond: OUTPUT_PER_SECOND };
  const empty = '\n'.repeat(1_000);
  const alone = new OutputLimiter(count, clock, limits);
  for (let n = 0; n < 100; n += 1) alone.add('stdout', '', empty);
  const most = lines;
  lines = 0;
  const workers = Array.from({ length: 4 }, () => new OutputLimiter(count, clock, { ...limits, shared }));
  for (let n = 0; n < 100; n += 1) for (const worker of workers) worker.add('stdout', '', empty);
  t.true(lines > 0 && lines <= most + 1_000, `${lines} lines of four workers, ${most} of one`);
});

test('the pipes of a worker: an unfinished line is shown soon, and its rest when the pipe ends', async (t) => {
  const script = String.raw`printf 'half \342'; read go; printf '\202\254\r\nwhole\n10%%\r20%%'`;
  const worker = spawn('sh', ['-c', script], { stdio: ['pipe', 'pipe', 'ignore'] });
  t.teardown(() => worker.kill('SIGKILL'));
  const lines: string[] = [];
  const { promise: first, resolve } = Promise.withResolvers<void>();
  const output = new WorkerOutput((_stream, text) => {
    lines.push(...linesOf(text));
    resolve();
  });
  worker.stdout.on('data', (data: Buffer) => output.push('stdout', data)).on('end', () => output.end('stdout'));
  await first;
  t.deepEqual(lines, ['half ']);
  worker.stdin.write('\n');
  await once(worker.stdout, 'close');
  t.deepEqual(lines, ['half ', '€', 'whole', '20%']);
});
