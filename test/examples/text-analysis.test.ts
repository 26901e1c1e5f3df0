/** The sample endpoint gives what POST /analyze of SPEC.md's reference application gives. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { analyze } from '../../examples/text-analysis/analyze.ts';

const cases: [string, number, number, number, number][] = [
  // text, words, characters, average word length, sentences
  ['', 0, 0, 0, 0],
  ['   \t\n', 0, 5, 0, 0],
  ['Hello world. How are you?', 5, 25, 4.2, 2],
  ['😀 hi!', 2, 5, 2, 1],
  ['one', 1, 3, 3, 0],
  ['...', 1, 3, 3, 3],
  ['?!.', 1, 3, 3, 3],
  ['What?! No...', 2, 12, 5.5, 5],
  ['  leading and trailing  ', 3, 24, 6, 0],
  ['a bb ccccc', 3, 10, 2.67, 0],
  ['a\tb\nc\u00A0d\u2003e\u3000f', 6, 11, 1, 0],
  ['👨‍👩‍👧 family', 2, 12, 5.5, 0],
  ['é e\u0301', 2, 4, 1.5, 0],
  // Halves are rounded up: 9/8 = 1.125, 11/8 = 1.375, 17/16 = 1.0625, 201/200 = 1.005.
  [`${'a '.repeat(7)}bb`, 8, 16, 1.13, 0],
  [`${'a '.repeat(5)}bb bb bb`, 8, 18, 1.38, 0],
  [`${'a '.repeat(15)}bb`, 16, 32, 1.06, 0],
  [`${'a '.repeat(199)}bb`, 200, 400, 1.01, 0],
];

for (const [text, words, characters, average, sentences] of cases) {
  test(`analyze ${JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)}`, (t) => {
    t.deepEqual(analyze(text), {
      text,
      statistics: { word_count: words, character_count: characters, average_word_length: average, sentence_count: sentences },
    });
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
