/** Frames of HTTP requests pass between the threads of a host as they are, short ones and long ones. */
import { MessageChannel } from 'node:worker_threads';

import test from 'ava';

import type { PostedFrames } from '../../agent/runtimes/host-protocol.ts';
import { FramePoster, postedFrames } from '../../agent/runtimes/thread/host/http/posted-frames.ts';

test('headers and bytes come out as they went in, in order; what is not handed over stays', async (t) => {
  const { port1, port2 } = new MessageChannel();
  t.teardown(() => port1.close());
  const heard = new Promise<PostedFrames>((resolve) => port2.once('message', resolve));
  const every = Uint8Array.from({ length: 256 }, (_, value) => value);
  const long = new Uint8Array(100_000).map((_, at) => at % 251);
  const shared = Buffer.concat([every, long]);
  const sent: [string, Uint8Array][] = [
    ['{"key":"é"}', new Uint8Array()],
    ['{}', every],
    ['{"n":1}', long],
    ['{"n":2}', shared.subarray(1, 1 + 256)],
    ['{"n":3}', shared.subarray(7)],
  ];
  const poster = new FramePoster((message, transfer) => port1.postMessage(message, transfer));
  t.true(poster.isEmpty);
  for (const [header, bytes] of sent) poster.add(header, bytes, false);
  const handedOver = new Uint8Array(long);
  poster.add('{"n":4}', handedOver, true);
  poster.flush();
  t.true(poster.isEmpty);
  const frames = [...postedFrames(await heard)].map(([header, bytes]) => [header, Buffer.from(bytes)]);
  t.deepEqual(frames, [...sent.map(([header, bytes]) => [header, Buffer.from(bytes)]), ['{"n":4}', Buffer.from(long)]]);
  t.is(handedOver.length, 0);
});
