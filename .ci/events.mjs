/**
 * The events of a test run in a file, one JSON object a line, for `.ci/tests`. ava's own printed report stays as it is.
 * ava calls `observeRun` with all that happens (an experiment of ava, whose version package.json pins; test/ci/tests.test.ts
 * holds it to what is read here).
 */
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

/** Configuration of ava that has it write its events to this file. */
export function writingEvents(path) {
  return {
    nonSemVerExperiments: { observeRunsFromConfig: true },
    observeRun: async ({ events }) => {
      for await (const event of events) {
        const line = lineOf(event);
        if (line !== null) appendFileSync(path, `${JSON.stringify(line)}\n`);
      }
    },
  };
}

/** What a line holds of an event; null for events that say nothing of the outcome. */
function lineOf({ type, testFile, title, skip, todo, duration, err, pendingTests, nonZeroExitCode, signal }) {
  if (UNUSED.has(type)) return null;
  return {
    type,
    file: testFile && relative('.', testFile),
    title,
    skipped: skip === true || todo === true || undefined,
    duration,
    message: err && (err.message ?? err.formattedError),
    exit: nonZeroExitCode ?? signal ?? undefined,
    pending: pendingTests && [...pendingTests].flatMap(([file, titles]) => [...titles].map((each) => `${relative('.', file)} › ${each}`)),
  };
}

const UNUSED = new Set([
  'accessed-snapshots',
  'declared-test',
  'hook-finished',
  'starting',
  'stats',
  'test-register-log-reference',
  'test-timeout-configured',
  'touched-files',
  'worker-stderr',
  'worker-stdout',
]);
