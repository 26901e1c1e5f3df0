/** What the stores keep of a document: it comes back byte for byte, or is known to be damaged. */
import test from 'ava';
import fc from 'fast-check';

import { PayloadKeys, payloadKeyOf } from '../../scheduler/secrets/payload-keys.ts';
import { PayloadCodec } from '../../scheduler/store/payload-codec.ts';

const codec = new PayloadCodec();
const keys = new PayloadKeys(Buffer.alloc(32, 7), [], true);
const encrypting = new PayloadCodec(keys.set);
const codecs = [codec, encrypting];
const documents = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.json().map((text) => new TextEncoder().encode(text)),
);

const isDamaged = (decoded: Uint8Array | { readonly damaged: string } | string): boolean =>
  typeof decoded === 'object' && 'damaged' in decoded;

test('a document comes back as it was', (t) => {
  fc.assert(
    fc.property(documents, fc.constantFrom(...codecs), (document, each) => {
      const decoded = encrypting.decode(each.encode(document));
      return decoded instanceof Uint8Array && Buffer.from(decoded).equals(Buffer.from(document));
    }),
  );
  t.pass();
});

test('whichever bit of the stored bytes flips, and wherever they are cut off, they are damaged', (t) => {
  for (const [document, each] of ['{"n":1}', '"x"', '0', ' []', '\t1', ''].flatMap((text) => codecs.map((one) => [text, one] as const))) {
    const stored = Buffer.from(each.encode(Buffer.from(document)));
    for (let bit = 0; bit < stored.length * 8; bit += 1) {
      const changed = Buffer.from(stored);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      t.true(isDamaged(each.decode(changed)), `${document}: bit ${bit}`);
    }
    for (let length = 1; length < stored.length; length += 1)
      t.true(isDamaged(each.decode(stored.subarray(0, length))), `${document}: ${length} bytes`);
  }
});

test('a document is read with the key of an earlier master key, and names the key that is missing', (t) => {
  const stored = encrypting.encode(Buffer.from('{"n":1}'));
  const later = new PayloadKeys(Buffer.alloc(32, 8), [], false);
  const reader = new PayloadCodec(later.set);
  later.onChange((set) => reader.use(set));
  const missing = reader.decode(stored);
  t.regex('damaged' in missing ? missing.damaged : '', new RegExp(`the payload key ${keys.set.keys[0].id}, which no master key`));
  later.keep(payloadKeyOf(Buffer.alloc(32, 7)));
  t.is(Buffer.from(reader.decode(stored) as Uint8Array).toString(), '{"n":1}');
  t.is(Buffer.from(reader.decode(reader.encode(Buffer.from('2'))) as Uint8Array).toString(), '2');
});

test('documents of earlier versions are returned as they are', (t) => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const decoded = codec.decode(Buffer.from(text));
      return decoded instanceof Uint8Array && Buffer.from(decoded).toString() === text;
    }),
  );
  t.true(isDamaged(codec.decode(Buffer.of(0x81, 1, 2))));
});

test("a delivery's envelope is JSON with its checksum, comes back as it was, and is damaged by any changed character", (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const text = JSON.stringify(value);
      return typeof JSON.parse(codec.encodeText(text)) === 'object' && codec.decodeText(codec.encodeText(text)) === text;
    }),
  );
  const text = '{"id":"job-1","status":"COMPLETED"}';
  const stored = codec.encodeText(text);
  for (let at = stored.indexOf('id'); at < stored.length; at += 1)
    t.true(isDamaged(codec.decodeText(`${stored.slice(0, at)}~${stored.slice(at + 1)}`)), `character ${at}`);
  t.is(codec.decodeText(text), text);
});
