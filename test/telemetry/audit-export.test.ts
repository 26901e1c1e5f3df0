/** The audit log reaches a receiver of OTLP, whole and in order, and a receiver that misbehaves harms nobody. */
import { pino } from 'pino';
import test, { type ExecutionContext } from 'ava';

import { auditTarget, readConfig } from '../../scheduler/config.ts';
import { recordsIn, type DecodedRecord } from '../support/otlp-logs.ts';
import { Receiver, type Answer } from '../support/receiver.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const SECRET = 'very-secret-value';

interface World {
  readonly scheduler: TestScheduler;
  readonly receiver: Receiver;
  /** Lines of the scheduler's log. */
  readonly logged: string[];
}

async function open(t: ExecutionContext, answers: Answer[] = [200], settings: Record<string, unknown> = {}): Promise<World> {
  const receiver = await Receiver.open(t, answers);
  const logged: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(line) });
  const own = {
    auditExporter: 'otlp',
    otlpLogsEndpoint: receiver.url('/custom/logs'),
    otlpLogsProtocol: 'http/json',
    auditExportTimeoutMs: 20_000,
    ...settings,
  };
  const scheduler = await TestScheduler.open(own, { log });
  t.teardown(() => scheduler.close());
  return { scheduler, receiver, logged };
}

async function putSecret({ scheduler }: World, name: string): Promise<void> {
  const request = { environment: '', name, value: SECRET };
  await unary((end) => scheduler.control.setSecret(request, scheduler.bearer(scheduler.secret('api-key')), end));
}

/** Entries in requests that were answered with 200: the receiver's answers begin with `failed` others. */
function takenBy({ receiver }: World, failed = 0): DecodedRecord[] {
  return receiver.received.slice(failed).flatMap(({ body }) => recordsIn(body));
}

function idsOf(records: readonly DecodedRecord[]): string[] {
  return records.map(({ attributes }) => String(attributes['capstan.audit.id']));
}

async function logOf({ scheduler }: World): Promise<string[]> {
  return (await scheduler.audited()).map(({ id }) => id).toReversed();
}

const warningsOf = ({ logged }: World): string[] => logged.filter((line) => line.includes('the audit log is not exported'));

test('a receiver gets every entry once, in order, with its author and states, and without a value of a secret', async (t) => {
  const world = await open(t);
  for (let i = 0; i < 120; i++) await putSecret(world, `S${i}`);
  const all = await until('every entry arrives', () => takenBy(world).length >= 120 && takenBy(world));
  t.deepEqual(idsOf(all), await logOf(world));
  t.is(world.receiver.received[0]?.url, '/custom/logs');
  t.like(all[0], { body: 'setSecret S0', scope: 'capstan.audit', severity: 'info' });
  t.like(all[0]?.attributes, {
    'capstan.audit.action': 'setSecret',
    'capstan.audit.object': 'S0',
    'capstan.account': 'default',
    'capstan.key.name': 'first key',
  });
  t.is(typeof all[0]?.attributes['capstan.audit.after'], 'string');
  t.like(all[0]?.resource, { 'service.name': 'capstan-scheduler', 'capstan.cell': 'default' });
  const [first] = (await world.scheduler.audited()).toReversed();
  t.is(all[0]?.time, (first?.atMs ?? 0n) * 1_000_000n);
  t.false(world.receiver.received.some(({ body }) => body.includes(SECRET)));
});

test('a receiver that refuses, swallows or is away: one warning, changes go on, and all entries arrive in order', async (t) => {
  const world = await open(t, [503, 'never', 401, 200], { auditExportTimeoutMs: 3_000 });
  await putSecret(world, 'FIRST');
  await until('it is told', () => warningsOf(world).length > 0);
  for (let i = 0; i < 5; i++) await putSecret(world, `S${i}`);
  const all = await until(
    'every entry arrives',
    () => world.receiver.received.length > 3 && takenBy(world, 3).length >= 6 && takenBy(world, 3),
  );
  t.deepEqual(idsOf(all), await logOf(world));
  await until('it is told that it works again', () => world.logged.some((line) => line.includes('exported again')));
  t.is(warningsOf(world).length, 1, world.logged.join(''));
  t.false(world.logged.some((line) => line.includes(SECRET)));
});

test('what was not taken before a restart is sent after it, and what was taken may be once more', async (t) => {
  let isSwallowing = false;
  const answer: Answer = (response) => isSwallowing || response.writeHead(200).end();
  // Its end does not wait for that.
  const world = await open(t, [answer], { auditExportTimeoutMs: 3_600_000 });
  await putSecret(world, 'TAKEN');
  await until('the first entry arrives', () => world.receiver.received.length === 1);
  isSwallowing = true;
  await putSecret(world, 'SWALLOWED');
  await until('the second entry is on its way', () => world.receiver.received.length === 2);
  let begun = 0;
  await world.scheduler.restart(() => {
    isSwallowing = false;
    begun = world.receiver.received.length;
    return Promise.resolve();
  });
  await putSecret(world, 'AFTER');
  const ids = await logOf(world);
  const after = await until('the last entry arrives', () => {
    const found = idsOf(takenBy(world, begun));
    return found.includes(ids[2] ?? '') && found;
  });
  t.deepEqual(after, ids, 'those of the last minute again, each once, in order');
});

test('an entry that the receiver will not take is left out, and told', async (t) => {
  const answer: Answer = (response, { body }) => response.writeHead(body.includes('POISON') ? 400 : 200).end();
  const world = await open(t, [answer]);
  await Promise.all(['A', 'POISON', 'B'].map((name) => putSecret(world, name)));
  const taken = await until('the others arrive', () => {
    const found = world.receiver.received.filter(({ body }) => !body.includes('POISON')).flatMap(({ body }) => recordsIn(body));
    return found.length >= 2 && found;
  });
  t.deepEqual(taken.map(({ body }) => String(body)).toSorted(), ['setSecret A', 'setSecret B']);
  await until('it is told', () => world.logged.some((line) => line.includes('is not exported') && line.includes('HTTP status 400')));
});

test('it is off unless it is named, and a receiver is required', async (t) => {
  const { scheduler, receiver } = await open(t, [200], { auditExporter: 'none' });
  t.is(receiver.received.length, 0);
  await scheduler.audited();
  const refused = (settings: Record<string, unknown>, message: RegExp) =>
    t.throws(() => readConfig({ dataDir: '/nowhere', auditExporter: 'otlp', ...settings }, {}), { message, code: 'CONFIG' });
  refused({}, /^CAPSTAN_AUDIT_EXPORTER: otlp requires/);
  refused({ otlpEndpoint: 'http://127.0.0.1:4318', otlpLogsProtocol: 'fax' }, /^OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: must be one of/);
  refused({ otlpLogsEndpoint: 'ftp://user:password@host' }, /^OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: must be an http or https URL$/);
  const { url } = auditTarget(readConfig({ dataDir: '/nowhere', auditExporter: 'otlp', otlpEndpoint: 'http://host:4318/' }, {})) ?? {};
  t.is(url, 'http://host:4318/v1/logs');
});
