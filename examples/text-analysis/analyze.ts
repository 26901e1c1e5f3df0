/** Counts of a text. The keys are those of POST /analyze in the reference application. */
export interface Analysis {
  text: string;
  statistics: {
    word_count: number;
    /** Code points: an emoji is one. */
    character_count: number;
    /** Code points per word, two decimals, halves rounded up; 0 without words. */
    average_word_length: number;
    sentence_count: number;
  };
}

/** Words are what white space separates; sentences are counted by the characters . ! ? */
export function analyze(text: string): Analysis {
  const words = text.split(/\p{White_Space}+/u).filter((word) => word !== '');
  const inWords = words.reduce((sum, word) => sum + codePoints(word), 0);
  return {
    text,
    statistics: {
      word_count: words.length,
      character_count: codePoints(text),
      average_word_length: words.length === 0 ? 0 : hundredths(inWords, words.length) / 100,
      sentence_count: text.match(/[.!?]/g)?.length ?? 0,
    },
  };
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/**
 * The quotient in hundredths, halves rounded up. In whole numbers: a half such as 0.125 × 100
 * would not survive binary fractions in general.
 */
function hundredths(dividend: number, divisor: number): number {
  const doubled = 200 * dividend + divisor;
  return (doubled - (doubled % (2 * divisor))) / (2 * divisor);
}
