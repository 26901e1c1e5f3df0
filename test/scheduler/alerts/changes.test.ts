/** Which incidents a channel is told of (scheduler/alerts/changes.ts). */
import test from 'ava';

import { changesOf, MAX_TOLD, newWatched, type ChangeRules } from '../../../scheduler/alerts/changes.ts';
import { alertMessage, chatBody } from '../../../scheduler/alerts/message.ts';
import type { ToldIncident } from '../../../scheduler/core/state/control-rows.ts';
import { keyOf, ofSubject, type Incident, type IncidentKind } from '../../../scheduler/incidents/incident.ts';

const RULES: ChangeRules = { now: 1_000_000, delayMs: 0, ownedSince: 0, graceMs: 20_000 };

function incident(kind: IncidentKind, subject: string, more: Partial<Incident> = {}): Incident {
  return { ...ofSubject(subject, ' is there', { kind, severity: 'CRITICAL', sinceMs: undefined, account: 'acc' }), ...more };
}

function told(of: Incident): ToldIncident {
  return { key: keyOf(of), subject: of.subject, message: of.message, toldAt: 0 };
}

test('an incident is told once it has lasted, and its end once it has been over for as long', (t) => {
  const watched = newWatched();
  const paused = incident('PAUSED', 'echo');
  const at = (now: number, row: readonly ToldIncident[], found: readonly Incident[]): readonly [number, number] => {
    const { begun, over } = changesOf(row, found, watched, { ...RULES, now, delayMs: 30_000 });
    return [begun.length, over.length];
  };
  t.deepEqual(at(100_000, [], [paused]), [0, 0]);
  t.deepEqual(at(129_999, [], [paused]), [0, 0]);
  t.deepEqual(at(130_000, [], [paused]), [1, 0]);
  const row = [told(paused)];
  t.deepEqual(at(131_000, row, [paused]), [0, 0], 'it was told');
  t.deepEqual(at(140_000, row, []), [0, 0]);
  t.deepEqual(at(160_000, row, [paused]), [0, 0], 'it is there again');
  t.deepEqual(at(170_000, row, []), [0, 0]);
  t.deepEqual(at(200_000, row, []), [0, 1]);
  t.deepEqual(at(201_000, [], [paused]), [0, 0], 'another one');
  t.deepEqual(at(205_000, [], []), [0, 0]);
  t.deepEqual(at(206_000, [], [paused]), [0, 0]);
  t.deepEqual(at(231_000, [], [paused]), [0, 0], 'one that came and went does not count');
});

test('after a take-over the absence of an incident says nothing before the scheduler knows again', (t) => {
  const rows = (['NODE_DISCONNECTED', 'FAILURE_RATE', 'GPU_IDLE'] as const).map((kind) => told(incident(kind, 'x')));
  const over = (now: number): string[] =>
    changesOf(rows, [], newWatched(), { ...RULES, now }).over.map(({ key }) => key.split(' ')[0] ?? '');
  t.deepEqual(over(19_000), []);
  t.deepEqual(over(20_000), ['NODE_DISCONNECTED']);
  t.deepEqual(over(360_000), ['NODE_DISCONNECTED', 'FAILURE_RATE']);
  t.deepEqual(over(1_920_000), ['NODE_DISCONNECTED', 'FAILURE_RATE', 'GPU_IDLE']);
});

test('an incident that is folded below its cause is neither over nor told of by itself', (t) => {
  const waiting = incident('NO_CAPACITY', 'echo');
  const gone = incident('NODE_DISCONNECTED', 'gpu-a', { effects: [waiting, incident('NO_CAPACITY', 'other')] });
  const { begun, over } = changesOf([told(waiting)], [gone], newWatched(), RULES);
  t.deepEqual(
    begun.map(({ subject }) => subject),
    ['gpu-a'],
  );
  t.deepEqual(over, []);
});

test('a channel remembers a bounded number of incidents', (t) => {
  const many = Array.from({ length: MAX_TOLD + 10 }, (_, index) => incident('PAUSED', `e${index}`));
  t.is(changesOf([], many, newWatched(), RULES).begun.length, MAX_TOLD);
  t.is(changesOf(many.slice(0, MAX_TOLD).map(told), many, newWatched(), RULES).begun.length, 0);
});

test('a message has subject, time, commands and an absolute link, and text of users does nothing in a chat', (t) => {
  const begun = incident('CRASH_LOOP', 'echo', {
    message: 'echo: <!channel> @here\n\u001B[31mred & [more](https://evil.example)',
    sinceMs: Date.UTC(2026, 10, 28, 16, 30),
    actions: [{ label: 'Open logs', command: 'capstan logs echo' }],
  });
  const message = alertMessage(
    { begun: [begun], over: [told(incident('PAUSED', 'x'))] },
    { site: 'https://capstan.example', now: 120_000 },
  );
  const { text } = JSON.parse(chatBody(message)) as { text: string };
  t.deepEqual(text.split('\n'), [
    String.raw`🔴 critical: echo: &lt;!channel&gt; @` +
      '\u200B' +
      String.raw`here \u001b[31mred &amp; [more]` +
      '\u200B(https://evil.example), since 2026-11-28 16:30 UTC',
    '    Open logs: capstan logs echo',
    '    What to do: https://capstan.example/console/docs/runbook.md#workers-fail-to-start',
    '🟢 over: x is there (told at 1970-01-01 00:00 UTC, 2 min ago)',
  ]);
  t.notRegex(message.subject, /\n/);
});

test('a message names twenty incidents and counts the others', (t) => {
  const begun = Array.from({ length: 25 }, (_, index) => incident('PAUSED', `e${index}`));
  const { lines, subject } = alertMessage({ begun, over: [] }, { site: '', now: 0 });
  t.is(lines.at(-1), '5 more: capstan status');
  t.true(subject.endsWith('(and 24 more)'));
});
