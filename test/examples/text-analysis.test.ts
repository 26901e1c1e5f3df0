/** The sample endpoint gives what POST /analyze of the reference application gives. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { analyze } from '../../examples/text-analysis/analyze.ts';
import { analysisOf, cases } from './text-analysis-cases.ts';

for (const each of cases) {
  const [text] = each;
  test(`analyze ${JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)}`, (t) => {
    t.deepEqual(analyze(text), analysisOf(each));
  });
}

const word = fc.string({ unit: fc.constantFrom('a', 'ß', '😀', '.', '!', '?', '1'), minLength: 1, maxLength: 12 });
const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\u00A0'), minLength: 1, maxLength: 3 });

testProp(
  'words and white space alternate: each count is that of its kind',
  [fc.array(fc.tuple(word, space), { maxLength: 40 }), space],
  (t, pairs, lead) => {
    const text = lead + pairs.map(([first, second]) => first + second).join('');
    const { statistics } = analyze(text);
    const inWords = pairs.reduce((sum, [each]) => sum + Array.from(each).length, 0);
    t.is(statistics.word_count, pairs.length);
    t.is(statistics.character_count, Array.from(text).length);
    t.is(statistics.sentence_count, Array.from(text).filter((each) => '.!?'.includes(each)).length);
    // In exact numbers: the nearest hundredth, the upper one of two.
    const hundredths = BigInt(Math.round(statistics.average_word_length * 100));
    if (pairs.length === 0) t.is(statistics.average_word_length, 0);
    else {
      const count = BigInt(pairs.length);
      const twiceOff = 2n * (hundredths * count - 100n * BigInt(inWords));
      t.true(twiceOff <= count && twiceOff > -count);
    }
  },
);

testProp('any text is analysed, and comes back as it was', [fc.string({ unit: 'binary' })], (t, text) => {
  const result = analyze(text);
  t.is(result.text, text);
  t.true(Object.values(result.statistics).every((value) => Number.isFinite(value) && value >= 0));
});
