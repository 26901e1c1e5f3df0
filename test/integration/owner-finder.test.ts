/** Clients of several schedulers find the one that owns the queue, follow it, and use nothing that another one says. */
import { connectivityState, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import { isSchedulerAddress, resolveCandidates, type LookUp } from '../../lib/owner/addresses.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { OwnerChannel } from '../../lib/owner/owner-channel.ts';
import { OwnerFinder, type FinderLog } from '../../lib/owner/owner-finder.ts';
import { BlobServiceClient, PutBlobHeader, type PutBlobRequest } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { FakeOwner } from '../support/fake-owner.ts';
import { until } from '../support/until.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

test('the setting takes addresses, names, a mix of them, or a socket', async (t) => {
  for (const good of ['a:1', '10.0.0.1:7070', '[::1]:7070', 'a:1,10.0.0.2:2, [fd00::1]:3', 'unix:/run/s', 'dns:///a:1'])
    t.true(isSchedulerAddress(good), good);
  for (const bad of ['', 'a', 'a:1,', 'a:1,b', '10.0.0:1', '[a]:1', 'a:99999', 'a:1,unix:/x', 'unix:', ',', 'a b:1', '::1:7070'])
    t.false(isSchedulerAddress(bad), bad);
  const lookUp: LookUp = async (host) => {
    if (host === 'gone') throw new Error('no such host');
    return ['10.0.0.8', 'fd00::8'];
  };
  t.deepEqual(await resolveCandidates('cell:7070,10.0.0.8:7070,gone:1,unix.host:7', lookUp), [
    { key: '10.0.0.8:7070', target: '10.0.0.8:7070' },
    { key: '[fd00::8]:7070', target: 'ipv6:[fd00::8]:7070', authority: 'cell:7070' },
    { key: '10.0.0.8:7', target: 'ipv4:10.0.0.8:7', authority: 'unix.host:7' },
    { key: '[fd00::8]:7', target: 'ipv6:[fd00::8]:7', authority: 'unix.host:7' },
  ]);
  await t.throwsAsync(resolveCandidates('gone:1', lookUp), { message: 'no such host' });
});

test('a call waits for the first owner, whatever started first, and no standby gets its credentials', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { ask } = client(t, [a, b]);
  const waiting = ask();
  b.own(true, 1);
  t.is(await waiting, 'b');
  t.deepEqual([a.credentials, b.credentials], [[], ['Bearer secret']]);
});

test('calls follow the owner when it is killed, and its successor when it is', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { insist } = client(t, [a, b]);
  a.own(true, 1);
  t.is(await insist(), 'a');
  a.stop();
  const waiting = insist();
  b.own(true, 2);
  t.is(await waiting, 'b');
  await a.listen();
  a.own(true, 3);
  b.stop();
  t.is(await insist(), 'a');
});

test('a call that a standby refused is made again at the owner, which it names', async (t) => {
  const [a, b, c] = await fakes(t, 3);
  const { ask } = client(t, [a, b, c]);
  a.own(true, 1);
  t.is(await ask(), 'a');
  a.named = c.address;
  a.isStandby = true;
  c.own(true, 2);
  t.is(await ask(), 'c');
  t.deepEqual(a.calls, ['getMetrics', 'refused']);
});

test('a search is logged once for each reason, however often an owner is found and left', async (t) => {
  const [a, b] = await fakes(t, 2);
  const said: string[] = [];
  const say = (facts: object, message: string): void => void said.push(`${message}: ${JSON.stringify(facts)}`);
  const { ask } = client(t, [a, b], { log: { ...quiet, warn: say, info: say } });
  // It says that it serves, and refuses calls all the same.
  a.isSureOfItself = true;
  a.own(false, 1);
  const waiting = ask();
  await until('it was found and left several times', () => a.calls.filter((call) => call === 'refused').length >= 4);
  b.own(true, 2);
  t.is(await waiting, 'b');
  const searches = said.filter((line) => line.startsWith('looking for'));
  t.is(searches.length, 1, searches.join('\n'));
  t.regex(searches[0] ?? '', /"cell":"default".*"reason":"it does not own the queue"/);
  const reasons = said.filter((line) => line.startsWith('no owner here'));
  t.is(new Set(reasons).size, reasons.length, reasons.join('\n'));
});

test('a stream that a standby refused after several messages is made again with all of them, in order', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { ask, channel, metadata } = client(t, [a, b]);
  a.own(true, 1);
  t.is(await ask(), 'a');
  b.own(true, 2);
  a.isStandby = true;
  a.isSilent = true;
  a.named = b.address;
  const blobs = new BlobServiceClient(a.address, credentials.createInsecure(), { channelOverride: channel });
  const put = Promise.withResolvers<unknown>();
  const upload = blobs.put(metadata, (error, reply) => (error === null ? put.resolve(reply) : put.reject(error)));
  const write = (part: PutBlobRequest['part']): Promise<void> => new Promise((resolve) => upload.write({ part }, () => resolve()));
  await write({ $case: 'header', value: PutBlobHeader.fromPartial({}) });
  for (const text of ['one', 'two', 'three']) await write({ $case: 'data', value: Buffer.from(text) });
  a.wake();
  upload.end();
  await put.promise;
  t.deepEqual(
    b.puts.map((messages) => messages.map(String)),
    [['header', 'one', 'two', 'three']],
  );
});

test('a scheduler from before cells is followed while it serves, and not after one with a term', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { ask, insist } = client(t, [a, b]);
  a.isEarlier = true;
  const waiting = ask();
  a.own(true);
  t.is(await waiting, 'a');
  t.deepEqual(b.credentials, []);
  b.own(true, 2);
  a.stop();
  t.is(await insist(), 'b');
  await a.listen();
  b.own(false);
  const seen = a.healthCalls;
  const next = insist();
  await until('it is watched again', () => a.healthCalls > seen);
  b.own(true, 3);
  t.is(await next, 'b');
});

test('the owner of another cell is not taken for a scheduler from before cells', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { ask } = client(t, [a, b]);
  b.cell = 'other';
  b.own(true, 7);
  const waiting = ask();
  await until('its health was asked', () => b.healthCalls > 1);
  a.own(true, 1);
  t.is(await waiting, 'a');
  t.deepEqual(b.credentials, []);
});

test('a standby sends nobody to an address that is not configured', async (t) => {
  const [a, b, stranger] = await fakes(t, 3);
  const { ask } = client(t, [a, b]);
  a.own(true, 1);
  t.is(await ask(), 'a');
  stranger.own(true, 99);
  a.named = stranger.address;
  a.isStandby = true;
  const waiting = ask();
  b.own(true, 2);
  t.is(await waiting, 'b');
  t.deepEqual(stranger.credentials, []);
});

test('a scheduler that says it serves and refuses is not called in a tight loop', async (t) => {
  const [a, b] = await fakes(t, 2);
  a.isSureOfItself = true;
  const { ask } = client(t, [a, b]);
  const waiting = ask();
  while (a.calls.length < 4) await new Promise((resolve) => setImmediate(resolve));
  b.own(true, 1);
  t.is(await waiting, 'b');
  t.true(a.calls.length < 20, `${a.calls.length} calls`);
});

test('what a scheduler with an older term says is not used', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { finder, ask } = client(t, [a, b]);
  a.own(true, 7);
  t.is(await ask(), 'a');
  // The term of another owner became known elsewhere, while the connection to the first one is as good as before.
  finder.accepts(metadataOf({ 'capstan-term': '8' }));
  const failed = await ask().then(
    (text) => text,
    (error: ServiceError) => error.details,
  );
  t.regex(failed, /older term/);
  const waiting = ask();
  b.own(true, 8);
  t.is(await waiting, 'b');
});

test('credentials that a scheduler without a term rejects are not given up, once owners showed theirs', async (t) => {
  const [a] = await fakes(t, 1);
  const { ask } = client(t, [a]);
  a.own(true, undefined);
  a.isStranger = true;
  t.is(await ask().catch((error: ServiceError) => error.code), status.UNAUTHENTICATED);
  a.isStranger = false;
  a.own(true, 4);
  t.is(await ask(), 'a');
  a.isStranger = true;
  t.is(await ask().catch((error: ServiceError) => error.code), status.UNAVAILABLE);
});

test('the owner of another cell is not followed, and its term counts for nothing', async (t) => {
  const [a, b] = await fakes(t, 2);
  a.cell = 'blue';
  a.own(true, 99);
  const { ask } = client(t, [a, b]);
  const waiting = ask();
  b.own(true, 1);
  t.is(await waiting, 'b');
  t.deepEqual(a.credentials, []);
});

test('the cell to which a caller was moved is believed only of an owner with a term', async (t) => {
  const [a] = await fakes(t, 1);
  const { ask } = client(t, [a]);
  const said = async () => {
    const { code, cell } = fromServiceError(await ask().catch((error: unknown) => error));
    return [code, cell];
  };
  a.movedTo = 'west';
  a.own(true, undefined);
  t.deepEqual(await said(), ['UNAVAILABLE', undefined], 'no owner of a database with several cells');
  a.own(true, 4);
  t.deepEqual(await said(), ['CONFLICT', 'west']);
  a.movedTo = 'West; rm';
  t.deepEqual(await said(), ['CONFLICT', undefined], 'no name of a cell');
  a.movedTo = 'west';
  a.own(true, 3);
  t.deepEqual(await said(), ['UNAVAILABLE', undefined], 'an owner that lost the queue');
});

test('a client turns to the owner of another cell, whose term may be lower, and uses nothing of the first any more', async (t) => {
  const [a, b] = await fakes(t, 2);
  a.own(true, 99);
  b.cell = 'west';
  b.own(true, 1);
  let cell = 'default';
  const { finder, ask } = client(t, [a, b], { cell: () => cell });
  t.is(await ask(), 'a');
  a.isSilent = true;
  const late = ask().catch((error: ServiceError) => error.code);
  while (a.calls.length < 2) await new Promise((resolve) => setImmediate(resolve));
  cell = 'west';
  finder.switchCell();
  a.wake();
  t.is(await late, status.UNAVAILABLE);
  t.is(await ask(), 'b');
  finder.switchCell();
  t.is(await ask(), 'b', 'no other cell');
  cell = 'default';
  finder.switchCell();
  t.is(await ask(), 'a');
});

test('a silent owner is left for one with a higher term, and what it says later is not used', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { control, ask, metadata } = client(t, [a, b]);
  a.own(true, 1);
  const stream = control.watchDirectory({}, metadata);
  const ended = new Promise<string>((resolve) => stream.on('error', (error: ServiceError) => resolve(error.details)));
  const heard: unknown[] = [];
  stream.on('data', (update: unknown) => heard.push(update));
  t.is(await ask(), 'a');
  a.isSilent = true;
  const lost = ask().catch((error: ServiceError) => error.details);
  b.own(true, 2);
  t.regex(await ended, /no longer owns/);
  t.regex(await lost, /no longer owns/);
  a.wake();
  for (const each of a.streams) each.write({ reset: true, keys: [], removedKeys: [], endpoints: [], removedEndpoints: [], placements: [] });
  t.is(await ask(), 'b');
  t.deepEqual(heard, []);
});

test('a slow owner keeps its connection while nobody has a higher term', async (t) => {
  const [a, b] = await fakes(t, 2);
  const { ask } = client(t, [a, b]);
  a.own(true, 5);
  t.is(await ask(), 'a');
  a.isSilent = true;
  const asked = b.healthCalls;
  const waiting = ask();
  // Another that serves under the same term, or an older one, is no proof.
  b.own(true, 5);
  while (b.healthCalls - asked < 4) await new Promise((resolve) => setImmediate(resolve));
  a.wake();
  t.is(await waiting, 'a');
  t.deepEqual(b.credentials, []);
});

test('a name with several addresses is resolved anew while the owner is searched', async (t) => {
  const [a] = await fakes(t, 1);
  const b = new FakeOwner('b');
  t.teardown(() => b.stop());
  let addresses = ['127.0.0.1', '127.0.0.3'];
  a.own(true, 1);
  let lookUps = 0;
  const lookUp: LookUp = async () => {
    lookUps += 1;
    return addresses;
  };
  const { finder, insist: ask } = client(t, [], { setting: `scheduler.test:${a.port}`, lookUp });
  t.is(await ask(), 'a');
  t.is(finder.owner?.authority, `scheduler.test:${a.port}`);
  a.stop();
  const waiting = ask();
  const before = lookUps;
  await until('the name is resolved anew', () => lookUps > before);
  b.address = `127.0.0.2:${a.port}`;
  await b.listen('127.0.0.2');
  b.own(true, 2);
  addresses = ['127.0.0.1', '127.0.0.2'];
  t.is(await waiting, 'b');
});

test('a single address is dialled without a question, and again on a new connection after NOT_OWNER', async (t) => {
  const [a] = await fakes(t, 1);
  a.own(true, 1);
  const { ask } = client(t, [a]);
  t.is(await ask(), 'a');
  t.is(a.healthCalls, 0);
  a.isStandby = true;
  const waiting = ask();
  while (a.calls.length < 3) await new Promise((resolve) => setImmediate(resolve));
  a.own(true, 2);
  t.is(await waiting, 'a');
});

test('a call that does not wait fails at once while no owner is known; a closed channel fails those that wait', async (t) => {
  const fake = await fakes(t, 2);
  const { control, channel, ask } = client(t, fake);
  const patient = ask().catch((error: ServiceError) => error.details);
  const hasty = new Promise<string>((resolve) => {
    control.getMetrics({}, new Metadata(), (error) => resolve(error?.details ?? ''));
  });
  t.is(await hasty, 'no scheduler is known to own the queue');
  const late = new Promise<number>((resolve) => {
    const metadata = new Metadata({ waitForReady: true });
    control.getMetrics({}, metadata, { deadline: Date.now() + 50 }, (error) => resolve(error?.code ?? -1));
  });
  t.is(await late, 4);
  channel.close();
  t.is(await patient, 'the channel was closed before the call started');
  t.is(channel.getConnectivityState(false), connectivityState.SHUTDOWN);
});

async function fakes<N extends 1 | 2 | 3>(
  t: ExecutionContext,
  count: N,
): Promise<N extends 1 ? [FakeOwner] : N extends 2 ? [FakeOwner, FakeOwner] : [FakeOwner, FakeOwner, FakeOwner]> {
  const made = await Promise.all(['a', 'b', 'c'].slice(0, count).map((name) => FakeOwner.start(name)));
  t.teardown(() => made.forEach((fake) => fake.stop()));
  return made as never;
}

interface ClientOptions {
  readonly setting?: string;
  readonly lookUp?: LookUp;
  readonly cell?: () => string;
  readonly log?: FinderLog;
}

function client(t: ExecutionContext, of: readonly FakeOwner[], more: ClientOptions = {}) {
  const { setting = of.map(({ address }) => address).join(','), lookUp, cell = () => 'default', log = quiet } = more;
  const finder = new OwnerFinder({
    setting,
    credentials: credentials.createInsecure(),
    log,
    cell,
    ...(lookUp === undefined ? {} : { lookUp }),
  });
  finder.start();
  const channel = new OwnerChannel(finder, { 'grpc.use_local_subchannel_pool': 1 });
  const control = new ControlServiceClient(setting, credentials.createInsecure(), { channelOverride: channel });
  t.teardown(() => {
    control.close();
    finder.close();
  });
  const metadata = new Metadata({ waitForReady: true });
  metadata.set('authorization', 'Bearer secret');
  const ask = (): Promise<string> =>
    new Promise((resolve, reject) => {
      control.getMetrics({}, metadata, (error, reply) => (error === null ? resolve(reply.text) : reject(error)));
    });
  /** As callers do with what may be made again: a call that was cut off is made again. */
  const insist = async (): Promise<string> => {
    for (;;) {
      const text = await ask().catch((error: ServiceError) => error);
      if (typeof text === 'string') return text;
      if (text.code !== status.UNAVAILABLE && text.code !== status.CANCELLED) throw text;
    }
  };
  return { finder, channel, control, metadata, ask, insist };
}

function metadataOf(values: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(values)) metadata.set(key, value);
  return metadata;
}
