/** Payloads cross the protobuf border whole, and what they weigh bounds what they take. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import {
  blobBytes,
  fromPayloadMessage,
  inlineBytes,
  messageBytes,
  ownPayload,
  payloadBytes,
  toPayloadMessage,
  type Payload,
} from '../../lib/payload.ts';
import { Payload as PayloadMessage } from '../../proto/gen/capstan/v1/common.ts';

/** Tags and lengths of the fields. */
const FRAMING = 16;

const inline = fc.uint8Array({ maxLength: 300 }).map((bytes): Payload => ({ inline: bytes }));
const blob = fc
  .record({ id: fc.stringMatching(/^body\/[0-9a-f]{32}$/), size: fc.integer({ min: 0, max: 2 ** 32 - 1 }) })
  .map((reference): Payload => ({ blob: reference }));
const payload = fc.oneof(inline, blob);

/** With plain bytes, to compare. */
function shown(value: Payload | undefined): unknown {
  return value !== undefined && 'inline' in value ? { inline: [...value.inline] } : value;
}

testProp('a payload is the same after its message', [payload], (t, sent) => {
  const bytes = PayloadMessage.encode(toPayloadMessage(sent)).finish();
  t.deepEqual(shown(fromPayloadMessage(PayloadMessage.decode(bytes))), shown(sent));
});

testProp('a message takes what its payload is said to take, and framing', [payload], (t, sent) => {
  const message = toPayloadMessage(sent);
  const taken = PayloadMessage.encode(message).finish().length;
  t.true(taken <= messageBytes(message) + FRAMING);
});

testProp('every byte of a document is either inline or in the blob store', [payload], (t, sent) => {
  t.is(inlineBytes(sent) + blobBytes(sent), payloadBytes(sent));
});

testProp('an owned payload has the same bytes in memory of its own', [fc.uint8Array({ minLength: 1, maxLength: 50 })], (t, bytes) => {
  const message = Buffer.concat([Buffer.from('before'), bytes, Buffer.from('after')]);
  const sent: Payload = { inline: message.subarray(6, 6 + bytes.length) };
  const own = ownPayload(sent);
  t.deepEqual(shown(own), shown(sent));
  t.true('inline' in own && own.inline.buffer.byteLength === bytes.length);
});

test('an empty document is a payload, a message without a body is none', (t) => {
  t.deepEqual(shown(fromPayloadMessage(toPayloadMessage({ inline: new Uint8Array(0) }))), { inline: [] });
  t.is(fromPayloadMessage({ body: undefined }), undefined);
  t.is(fromPayloadMessage(undefined), undefined);
  t.is(messageBytes(undefined), 0);
});
