/** What the events of a test run amount to. Without I/O; `.ci/tests` is its caller. */

/** Events that are no fault. Every other one is a fault beyond tests, also one that a later version of ava brings. */
const HARMLESS = new Set(['selected-test', 'test-passed', 'test-failed', 'worker-finished', 'end']);

/**
 * Outcome of one run of the test runner.
 * @param {string} text its events, one JSON object a line
 * @param {number} code its exit code
 * @returns {{ passed: Test[], failed: Test[], skipped: Test[], beyond: string[] }} `beyond`: what went wrong apart from
 *   tests (a hook, a time-out, an exception outside of a test, a crash), each in words. Such a run is red.
 */
export function verdictOf(text, code) {
  const lines = text.split('\n').filter((line) => line !== '');
  const events = lines.map(parse);
  const passed = events.filter(({ type }) => type === 'test-passed');
  const failed = events.filter(({ type }) => type === 'test-failed');
  const skipped = events.filter(({ type, skipped: left }) => type === 'selected-test' && left === true);
  const beyond = events.filter(({ type }) => !HARMLESS.has(type)).map(inWords);
  if (!events.some(({ type }) => type === 'end')) beyond.push('the run has no end');
  if (beyond.length === 0) beyond.push(...withoutOutcome(events));
  // A run can end badly although each test passed, and a run with failed tests must not end well.
  if (beyond.length === 0 && (code === 0) !== (failed.length === 0)) beyond.push(`exit code ${code} with ${failed.length} failed tests`);
  return { passed, failed, skipped, beyond };
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return { type: 'unreadable event', message: line };
  }
}

function withoutOutcome(events) {
  const ended = new Set(events.filter(({ type }) => type === 'test-passed' || type === 'test-failed').map(nameOf));
  const selected = events.filter(({ type, skipped }) => type === 'selected-test' && skipped !== true);
  return selected.filter((each) => !ended.has(nameOf(each))).map((each) => `no outcome: ${nameOf(each)}`);
}

function inWords({ type, file, title, message, exit, pending = [] }) {
  const where = title === undefined ? file : nameOf({ file, title });
  const said = [type.replaceAll('-', ' '), where, exit === undefined ? undefined : `exit ${exit}`, message?.split('\n')[0]];
  const head = said.filter((part) => part !== undefined && part !== '').join(': ');
  return [head, ...pending.map((name) => `  pending: ${name}`)].join('\n');
}

/** A test's name for people. */
export const nameOf = ({ file, title }) => `${file} › ${title}`;

/** Files of tests, each once, in their order. */
export const filesOf = (tests) => [...new Set(tests.map(({ file }) => file))];

/**
 * The list of known unsteady tests: a line each, `<date> <file> › <title>`, for instance
 * `2026-11-22 test/agent/logs.test.ts › a line that never ends`. Lines that start with `#` are comments.
 * @param {string} text
 * @param {(file: string) => boolean} exists
 * @returns {{ known: Map<string, string>, wrong: string[] }} dates by the test's name; lines that are no entries
 */
export function readUnsteady(text, exists) {
  const known = new Map();
  const wrong = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const [, date, file, title] = /^(\d{4}-\d\d-\d\d) (\S+\.test\.ts) › (\S.*)$/.exec(line) ?? [];
    if (date === undefined || Number.isNaN(Date.parse(date))) wrong.push(`line ${index + 1}: expected '<YYYY-MM-DD> <file> › <title>'`);
    else if (!exists(file)) wrong.push(`line ${index + 1}: there is no ${file}`);
    else if (known.has(nameOf({ file, title }))) wrong.push(`line ${index + 1}: ${nameOf({ file, title })} is there twice`);
    else known.set(nameOf({ file, title }), date);
  }
  return { known, wrong };
}
