/** Lines of what a worker prints: whole ones at once, unfinished ones after a moment, of a progress bar its latest state. */
import { mock } from 'node:test';

import test from 'ava';

import { LineAssembler, PENDING_MS, STATE_MS } from '../../agent/runtimes/line-assembler.ts';

interface World {
  readonly assembler: LineAssembler;
  readonly lines: string[];
  readonly print: (text: string) => void;
  readonly wait: (ms: number) => void;
}

const run = test.serial;
run.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
run.afterEach.always(() => mock.timers.reset());

function open(): World {
  const lines: string[] = [];
  const assembler = new LineAssembler((_stream, _job, text) => lines.push(...text.slice(0, -1).split('\n')));
  return { assembler, lines, print: (text) => assembler.push('stdout', 'job', text), wait: (ms) => mock.timers.tick(ms) };
}

run('whole lines come at once, whatever the pieces', (t) => {
  const { lines, print } = open();
  print('a\nb\n\nc');
  t.deepEqual(lines, ['a', 'b', '']);
  print('d\r\ne\n');
  t.deepEqual(lines, ['a', 'b', '', 'cd', 'e']);
});

run('an unfinished line is shown after a moment; its rest is a line of its own, its end none', (t) => {
  const { lines, print, wait } = open();
  print('.');
  wait(PENDING_MS - 1);
  print('.');
  t.deepEqual(lines, []);
  wait(1);
  t.deepEqual(lines, ['..']);
  print('\n');
  print('next\n');
  t.deepEqual(lines, ['..', 'next']);
  print('Loading ');
  wait(PENDING_MS);
  print('done\r\n\n');
  t.deepEqual(lines, ['..', 'next', 'Loading ', 'done', '']);
});

run('of a progress bar the latest state is shown about once a second, and the last one', (t) => {
  const { lines, print, wait } = open();
  for (let step = 0; step < 100; step += 1) {
    print(`\r${step}%|${'#'.repeat(step)}`);
    wait(25);
  }
  print('\r100%\n');
  t.is(lines.length, Math.floor((100 * 25) / STATE_MS) + 1);
  t.is(lines.at(-1), '100%');
  t.regex(lines[0] ?? '', /^39%\|#+$/);
  print('1/3\r2/3\r3/3\r');
  wait(STATE_MS);
  print('\n');
  t.is(lines.at(-1), '3/3');
  t.is(lines.length, 4);
});

run('states that are overwritten take no memory, and long lines are cut', (t) => {
  const { lines, print } = open();
  for (let step = 0; step < 10_000; step += 1) print(`\rstep ${step}`);
  print('\n');
  t.deepEqual(lines, ['step 9999']);
  print('x'.repeat(20_000));
  t.is(lines[1]?.length, 20_000);
});

run('the end of a job ends its lines, not those of others', (t) => {
  const { assembler, lines } = open();
  assembler.push('stdout', 'a', 'of a');
  assembler.push('stderr', 'a', 'error of a');
  assembler.push('stdout', 'b', 'of b');
  assembler.end('a');
  t.deepEqual(lines, ['of a', 'error of a']);
  assembler.end();
  t.deepEqual(lines, ['of a', 'error of a', 'of b']);
  mock.timers.tick(STATE_MS);
  t.is(lines.length, 3);
});
