/** What the sample endpoint answers, in whichever language it is written. */

/** Text, words, characters, average word length, sentences. */
export type Case = readonly [string, number, number, number, number];

export const cases: readonly Case[] = [
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

export function analysisOf([text, words, characters, average, sentences]: Case): object {
  return {
    text,
    statistics: { word_count: words, character_count: characters, average_word_length: average, sentence_count: sentences },
  };
}
