/** References to secrets in environment values (lib/secret-references.ts). */
import test from 'ava';
import fc from 'fast-check';

import { environmentFault } from '../../lib/environment-values.ts';
import { MAX_SECRET_BYTES, referenceFault, secretFault, secretNames, withSecrets } from '../../lib/secret-references.ts';
import { secret } from '../../sdk/typescript/secret.ts';

test('references of both forms are found, with and without spaces; other text is left as it is', (t) => {
  const env = { A: '{{ RUNPOD_SECRET_ONE }}', B: `x${secret('TWO')}-{{CAPSTAN_SECRET_ONE}}`, C: '{{ secret }} {{RUNPOD_SECRET_}} $ONE' };
  t.deepEqual(secretNames(env), ['ONE', 'TWO']);
  const values: Record<string, string> = { ONE: '$& {{ CAPSTAN_SECRET_TWO }}', TWO: '2' };
  t.deepEqual(
    withSecrets(env, (name) => values[name]),
    { A: '$& {{ CAPSTAN_SECRET_TWO }}', B: 'x2-$& {{ CAPSTAN_SECRET_TWO }}', C: env.C },
  );
});

test('a variable whose secret has no value is left out', (t) => {
  t.deepEqual(
    withSecrets({ A: secret('ONE'), B: 'b' }, () => undefined),
    { B: 'b' },
  );
});

test('the SDK refuses names that no reference can have', (t) => {
  for (const name of ['', '1A', 'a-b', 'A B', 'Ä', 'A'.repeat(129), 'A }}{{ CAPSTAN_SECRET_B'])
    t.throws(() => secret(name), { instanceOf: TypeError }, name);
  t.deepEqual(secretNames({ A: secret('A'.repeat(128)) }), ['A'.repeat(128)]);
});

test('values are refused without being shown', (t) => {
  t.is(secretFault('hunter2'), null);
  t.is(secretFault(''), 'must not be empty');
  t.regex(secretFault('hunter2\0') ?? '', /^must not contain the character NUL$/);
  t.regex(secretFault('é'.repeat(8_001)) ?? '', /^must have at most 16000 bytes, not 16002$/);
});

test('what passes the rules stays within the limits of an environment, whatever the secrets are', (t) => {
  const piece = fc.oneof(fc.constant(secret('BIG')), fc.string({ maxLength: 20 }));
  const env = fc.dictionary(
    fc.stringMatching(/^[A-Z]{1,8}$/),
    fc.array(piece, { maxLength: 8 }).map((parts) => parts.join('')),
  );
  const big = 'x'.repeat(MAX_SECRET_BYTES);
  fc.assert(
    fc.property(env, (given) => {
      if (environmentFault(given) !== null || referenceFault(given) !== null) return;
      const { path, rule } = environmentFault(withSecrets(given, () => big)) ?? { path: '', rule: '' };
      t.is(path, '', rule);
    }),
  );
  const most = { A: secret('BIG').repeat(4) + 'x'.repeat(65_000) };
  t.is(referenceFault(most), null);
  t.is(environmentFault(withSecrets(most, () => big)), null);
  t.deepEqual(referenceFault({ A: secret('BIG').repeat(5) }), { path: '.A', rule: 'must refer to at most 4 secrets' });
  t.is(referenceFault({ A: `${secret('BIG')}${'x'.repeat(65_536)}` })?.path, '.A');
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`V${i}`, secret('BIG').repeat(4)]));
  t.is(referenceFault(many)?.path, '');
});
