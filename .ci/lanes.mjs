/**
 * Runs checks, two at a time where neither wants to be alone. Every check runs even when an earlier one failed. The output of each is printed
 * whole, in the order of their starts: the check that started first prints as it goes, that of the other is kept until then.
 *
 * Each check is a process group of its own: a signal to this process ends the groups, waits for them, and no other check starts. So does
 * the end of what reads the output: `head`, or `tee` on Ctrl+C.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const LANES = 2;
/** For the rest of the output after the end of a check; what a check leaves running may hold the pipe open for ever. */
const REST_MS = 2_000;
/** Runs the command in the shell's arguments with all its output in one pipe, and writes its processor time to descriptor 3. */
const SHELL = `trap : INT TERM HUP; exec 2>&1; "$@" 3>&-; code=$?; times >&3; exit $code`;

/**
 * @param checks { name, command, alone?, waits?, calm?, whyNot? } each: `alone` runs beside no other, `waits` computes little, `calm` runs only
 *   beside one that computes little; `whyNot` returns the reason to skip the check, asked as it would start
 * @param only names of the checks to run; none: all
 * @param wrong what has failed before, by name
 * @returns the exit code
 */
export async function runChecks(checks, { only, wrong }) {
  const names = checks.map(({ name }) => name);
  const unknown = only.filter((name) => !names.includes(name));
  for (const name of unknown) console.log(`✗ there is no check ${name}; there are: ${names.join(' ')}`);
  const waiting = checks.filter(({ name }) => only.length === 0 || only.includes(name));
  const { ended, signal } = await runAll(waiting);

  const skipped = ended.filter(({ reason }) => reason !== undefined).map(({ name }) => name);
  const failed = [...wrong, ...unknown, ...ended.filter(({ code }) => code !== 0).map(({ name }) => name)];
  const inOrder = (list) => list.toSorted((a, b) => names.indexOf(a) - names.indexOf(b)).join(' ');
  if (skipped.length > 0) console.log(`\n- skipped: ${inOrder(skipped)}`);
  if (failed.length > 0) console.log(`\n✗ failed: ${inOrder(failed)}`);
  if (signal !== null) {
    console.log(`\n✗ ended by ${signal} after ${Math.round(process.uptime())} s`);
    return 128 + constants.signals[signal];
  }
  if (failed.length > 0) return 1;
  console.log(`\n✓ all checks passed in ${Math.round(process.uptime())} s`);
  return 0;
}

/** How each of them ended, and the signal that kept others from starting. */
async function runAll(waiting) {
  const ended = [];
  const running = new Set();
  const printer = new Printer();
  let signal = null;
  const onSignal = (name) => {
    signal ??= name;
    for (const { signalGroup } of running) signalGroup(name);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const each of signals) process.on(each, onSignal);
  process.stdout.on('error', () => signal === null && onSignal('SIGTERM'));
  for (;;) {
    const next = signal === null ? nextOf(waiting, running) : undefined;
    if (next !== undefined) {
      waiting.splice(waiting.indexOf(next), 1);
      const reason = next.whyNot?.();
      const output = printer.next();
      if (reason === undefined) {
        running.add(start(next, output));
      } else {
        output.write(`\n=> ${next.name}\n- ${next.name} skipped: ${reason}\n`);
        output.end();
        ended.push({ name: next.name, code: 0, reason });
      }
    } else if (running.size > 0) {
      const first = await Promise.race([...running].map(({ end }) => end));
      running.delete(first.check);
      ended.push({ name: first.check.name, code: first.code });
    } else {
      break;
    }
  }
  for (const each of signals) process.off(each, onSignal);
  return { ended, signal };
}

/**
 * The first that may start now. A check that waits to be alone is overtaken by those that need not be. One that mostly waits goes beside
 * one that computes as long as there are both.
 */
function nextOf(waiting, running) {
  const [other] = running;
  if (other === undefined) return waiting[0];
  if (running.size >= LANES || other.alone) return undefined;
  const allowed = waiting.filter((check) => !check.alone && (!check.calm || other.waits) && (!other.calm || check.waits));
  return allowed.find(({ waits = false }) => waits !== other.waits) ?? allowed[0];
}

function start({ name, command, alone = false, waits = false, calm = false }, output) {
  const startedMs = performance.now();
  output.write(`\n=> ${name}: ${command.join(' ')}\n`);
  const child = spawn('bash', ['-c', SHELL, name, ...command], { stdio: ['ignore', 'pipe', 'ignore', 'pipe'], detached: true });
  let times = '';
  child.stdout.on('data', (bytes) => output.write(bytes));
  child.stdio[3].on('data', (bytes) => (times += bytes));
  const check = { name, alone, waits, calm, signalGroup: (signal) => signalGroup(child.pid, signal) };
  check.end = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (exit, by) => {
      const code = exit ?? 128 + constants.signals[by];
      const rest = setTimeout(() => child.stdout.destroy(), REST_MS);
      child.on('close', () => {
        clearTimeout(rest);
        const took = `${Math.round((performance.now() - startedMs) / 1000)} s, ${processorSeconds(times)} s of processor time`;
        output.write(code === 0 ? `✓ ${name} (${took})\n` : `✗ ${name} failed with exit code ${code} (${took})\n`);
        output.end();
        resolve({ check, code });
      });
    });
  });
  return check;
}

/** Of bash's `times`: the second line is of the processes that it has waited for, `1m2.345s 0m3.456s`. */
function processorSeconds(times) {
  const [, children = ''] = times.split('\n');
  const seconds = [...children.matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, rest]) => Number(minutes) * 60 + Number(rest));
  return Math.round(seconds.reduce((sum, each) => sum + each, 0));
}

/** The outputs of several checks, one after the other on standard output. */
class Printer {
  #outputs = [];

  next() {
    const output = { kept: [], isEnded: false };
    this.#outputs.push(output);
    return {
      write: (bytes) => {
        if (this.#outputs[0] === output) process.stdout.write(bytes);
        else output.kept.push(bytes);
      },
      end: () => {
        output.isEnded = true;
        while (this.#outputs[0]?.isEnded) {
          this.#outputs.shift();
          for (const bytes of this.#outputs[0]?.kept.splice(0) ?? []) process.stdout.write(bytes);
        }
      },
    };
  }
}

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
