import { randomBytes } from 'node:crypto';

import test from 'ava';
import fc from 'fast-check';

import { CapstanError } from '../../../lib/errors.ts';
import { Cipher } from '../../../scheduler/secrets/cipher.ts';
import { hashKey, sameHash, sameSecret } from '../../../scheduler/secrets/hash.ts';

const master = randomBytes(32);

test('what was encrypted for a place is read back there, whatever it is', (t) => {
  const cipher = new Cipher(master);
  t.notThrows(() => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.string(),
        (text, place) => cipher.decrypt(cipher.encrypt(text, place), place) === text.toWellFormed(),
      ),
    );
  });
});

test('the same text gives another value each time, and the text is nowhere in it', (t) => {
  const cipher = new Cipher(master);
  const [first, second] = [cipher.encrypt('AKIA-very-secret', 'job/1/s3'), cipher.encrypt('AKIA-very-secret', 'job/1/s3')];
  t.notDeepEqual(first, second);
  t.false(first.includes('very-secret'));
});

test('a value does not decrypt in another place, under another key, or changed in any byte', (t) => {
  const cipher = new Cipher(master);
  const encrypted = cipher.encrypt('secret', 'job/1/s3');
  const refused = (sealedBytes: Uint8Array, place: string, by = cipher): void => {
    const error = t.throws(() => by.decrypt(sealedBytes, place), { instanceOf: CapstanError });
    t.is(error.code, 'DATA_DIR');
    t.true(error.message.includes(place));
    t.false(error.message.includes('secret'));
  };
  refused(encrypted, 'job/2/s3');
  refused(encrypted, 'job/1/s3', new Cipher(randomBytes(32)));
  for (let index = 0; index < encrypted.length; index += 1) {
    const changed = Buffer.from(encrypted);
    changed[index] = (changed[index] ?? 0) ^ 1;
    refused(changed, 'job/1/s3');
    refused(encrypted.subarray(0, index), 'job/1/s3');
  }
});

test('after a change of the master key, old values are read with the old key and new ones written with the new', (t) => {
  const next = randomBytes(32);
  const old = new Cipher(master).encrypt('old', 'env/A');
  const rotated = new Cipher(next, [master]);
  t.is(rotated.decrypt(old, 'env/A'), 'old');
  t.is(new Cipher(next).decrypt(rotated.encrypt('new', 'env/A'), 'env/A'), 'new');
});

test('a master key of another length is refused', (t) => {
  t.throws(() => new Cipher(randomBytes(16)), { instanceOf: CapstanError, message: /32 bytes, not 16/ });
});

test('keys are compared by their hashes', (t) => {
  t.is(hashKey('abc').toString('hex'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  t.true(sameSecret('abc', 'abc'));
  t.false(sameSecret('abc', 'abcd'));
  t.false(sameHash(hashKey('abc'), hashKey('abc').subarray(1)));
});
