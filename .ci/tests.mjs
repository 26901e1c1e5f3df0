/**
 * Runs tests as CI takes them: `.ci/tests [arguments of npm test]`. Files with failed tests are run once more, each by itself, and are
 * named as unsteady when they pass then; such a test is a fault to be mended, which need not keep out a change that has
 * nothing to do with it. What goes wrong apart from tests (a hook, a time-out, an exception outside of a test, a crash)
 * is red at once, and so is a run that is silent for five minutes, which is ended. Ends with one line: `N passed, N failed, N skipped`.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';

import { filesOf, nameOf, readUnsteady, verdictOf } from './verdict.mjs';

const LIST = '.ci/unsteady.txt';
/** A run without events for so long hangs: ava's own time-out does not end a thread that waits after its last test. */
const SILENCE_MS = Number(process.env['CAPSTAN_TEST_SILENCE_MS'] ?? 300_000);
/** Time to end after SIGTERM. */
const GRACE_MS = 10_000;

let running = null;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => running !== null && signalGroup(running, signal));

const { known, wrong } = readUnsteady(readFileSync(LIST, 'utf8'), existsSync);
for (const each of wrong) console.log(`✗ ${LIST}: ${each}`);
const folder = mkdtempSync(join(tmpdir(), 'capstan-tests-'));
try {
  process.exitCode = wrong.length > 0 ? 1 : await runAll(process.argv.slice(2));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function runAll(args) {
  const first = await runTests(args);
  if (first.beyond.length > 0) {
    console.log(`\n✗ not run again, as more failed than tests:\n${first.beyond.join('\n')}`);
    return finish(first, [], first.code || 1);
  }
  const again = [];
  for (const file of filesOf(first.failed)) {
    console.log(`\n=> once more, by itself: ${file}`);
    again.push({ file, ...(await runTests([file])) });
  }
  const steady = again.filter((run) => run.code !== 0 || run.beyond.length > 0);
  for (const { beyond } of again) if (beyond.length > 0) console.log(`\n✗ more failed than tests:\n${beyond.join('\n')}`);
  return finish(first, again, steady.length > 0 ? first.code : 0);
}

/** The last lines. A test that passed by itself counts as passed. */
function finish(first, again, code) {
  const mended = new Set(again.filter((run) => run.code === 0 && run.beyond.length === 0).map(({ file }) => file));
  const failed = first.failed.filter(({ file }) => !mended.has(file));
  const unsteady = first.failed.filter(({ file }) => mended.has(file));
  if (unsteady.length > 0) console.log('');
  for (const test of unsteady) {
    const since = known.get(nameOf(test));
    console.log(`  failed once: ${nameOf(test)} (${since === undefined ? `not in ${LIST}` : `known since ${since}`})`);
  }
  for (const file of filesOf(unsteady)) console.log(`! unsteady: ${file}`);
  if (failed.length > 0) console.log('');
  for (const test of failed) console.log(`✗ failed: ${nameOf(test)}`);
  console.log(`\n${first.passed.length + unsteady.length} passed, ${failed.length} failed, ${first.skipped.length} skipped`);
  return code;
}

/** One run of `npm test`, which prints its own report. */
async function runTests(args) {
  const path = join(folder, 'events');
  writeFileSync(path, '');
  const env = { ...process.env, CAPSTAN_TEST_EVENTS: path };
  let hasHung = false;
  const code = await new Promise((resolve, reject) => {
    running = spawn('npm', ['test', ...(args.length === 0 ? [] : ['--', ...args])], { env, stdio: 'inherit', detached: true });
    const watched = watch(running, path, () => (hasHung = true));
    running.on('error', reject);
    running.on('exit', (exit, signal) => {
      clearInterval(watched);
      resolve(exit ?? 128 + constants.signals[signal]);
    });
  });
  const verdict = verdictOf(readFileSync(path, 'utf8'), code);
  if (hasHung) verdict.beyond.push(`no event for ${SILENCE_MS / 1000} s: the run was ended`);
  return { code, ...verdict };
}

/** Ends a run that has been silent for too long. */
function watch(child, path, onSilence) {
  const startedMs = Date.now();
  let askedMs = null;
  return setInterval(
    () => {
      const now = Date.now();
      if (askedMs !== null) {
        if (now - askedMs >= GRACE_MS) signalGroup(child, 'SIGKILL');
      } else if (now - Math.max(startedMs, statSync(path).mtimeMs) >= SILENCE_MS) {
        askedMs = now;
        onSilence();
        signalGroup(child, 'SIGTERM');
      }
    },
    Math.min(5_000, SILENCE_MS / 4),
  );
}

/** npm, and what it started. */
function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
