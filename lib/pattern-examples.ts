/**
 * Makes a text that a regular expression matches, by reading the expression: literals, classes, groups, alternatives and
 * quantifiers. It executes no expression, so that none can take long. Pure.
 */

/** Characters of a pattern that is read, and of a text that is made. */
const MAX_PATTERN = 1_000;
const MAX_TEXT = 1_000;
const DEEPEST = 20;

/** What may stand for a negated class. */
const COMMON = ['a', '1', 'A', ' ', '_', '-', '.', '#'];
const DIGITS = [['0', '9']] as const;
/** Sets of characters within a class. */
const SETS: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  '\\d': DIGITS,
  '\\w': [['a', 'z'], ['A', 'Z'], ...DIGITS, ['_', '_']],
  '\\s': [
    [' ', ' '],
    ['\t', '\r'],
  ],
};

/** What the pattern does not say how to make: assertions, references back. */
class Unreadable extends Error {}

/** Returns a text of at least `least` characters; undefined where the pattern has parts that are not read. */
export function textLike(pattern: string, least = 0): string | undefined {
  if (pattern.length > MAX_PATTERN) return undefined;
  try {
    const made = new Maker(pattern, 0).all();
    if (made.length >= least) return made;
    // More of what may be repeated.
    for (const more of [least - made.length, least]) {
      const longer = new Maker(pattern, more).all();
      if (longer.length >= least) return longer;
    }
    return undefined;
  } catch (thrown) {
    if (thrown instanceof Unreadable) return undefined;
    throw thrown;
  }
}

class Maker {
  readonly #pattern: string;
  /** Repetitions beyond the least of the first part without an upper bound. */
  #more: number;
  #at = 0;

  constructor(pattern: string, more: number) {
    this.#pattern = pattern;
    this.#more = more;
  }

  all(): string {
    const text = this.#alternatives(0);
    if (this.#at < this.#pattern.length) throw new Unreadable();
    return text;
  }

  /** The first alternative; the others are only read over. */
  #alternatives(depth: number): string {
    if (depth > DEEPEST) throw new Unreadable();
    const first = this.#sequence(depth);
    const more = this.#more;
    while (this.#peek() === '|') {
      this.#at += 1;
      this.#sequence(depth);
    }
    this.#more = more;
    return first;
  }

  #sequence(depth: number): string {
    let text = '';
    for (let next = this.#peek(); next !== '' && next !== '|' && next !== ')'; next = this.#peek()) {
      const part = this.#part(depth);
      text += part.repeat(this.#count(part.length));
      if (text.length > MAX_TEXT) throw new Unreadable();
    }
    return text;
  }

  #part(depth: number): string {
    const character = this.#take();
    switch (character) {
      case '^':
      case '$':
        return '';
      case '.':
        return 'a';
      case '(':
        return this.#group(depth);
      case '[':
        return this.#class();
      case '\\':
        return this.#escape();
      case '*':
      case '+':
      case '?':
      case '{':
        throw new Unreadable();
      default:
        return character;
    }
  }

  #group(depth: number): string {
    if (this.#peek() === '?') {
      const [kind = ''] = /^\?(?::|P?<[A-Za-z_]\w*>)/.exec(this.#pattern.slice(this.#at)) ?? [];
      if (kind === '') throw new Unreadable();
      this.#at += kind.length;
    }
    const text = this.#alternatives(depth + 1);
    if (this.#take() !== ')') throw new Unreadable();
    return text;
  }

  /** The first character of a class; of a negated one, a common character that it does not exclude. */
  #class(): string {
    const isNegated = this.#peek() === '^';
    if (isNegated) this.#at += 1;
    const ranges: (readonly [string, string])[] = [];
    while (this.#peek() !== ']' || ranges.length === 0) {
      const set = SETS[this.#pattern.slice(this.#at, this.#at + 2)];
      if (set !== undefined) {
        this.#at += 2;
        ranges.push(...set);
        continue;
      }
      const from = this.#inClass();
      const isRange = this.#peek() === '-' && this.#pattern[this.#at + 1] !== ']';
      if (isRange) this.#at += 1;
      ranges.push([from, isRange ? this.#inClass() : from]);
    }
    this.#at += 1;
    const [[first] = ['']] = ranges;
    if (!isNegated) return first;
    const found = COMMON.find((each) => !ranges.some(([from, to]) => each >= from && each <= to));
    if (found === undefined) throw new Unreadable();
    return found;
  }

  #inClass(): string {
    const character = this.#take();
    return character === '\\' ? this.#escape() : character;
  }

  #escape(): string {
    const character = this.#take();
    const known: Readonly<Record<string, string>> = { d: '1', w: 'a', s: ' ', D: 'a', S: 'a', W: ' ', n: '\n', t: '\t', r: '\r' };
    if (Object.hasOwn(known, character)) return known[character] ?? '';
    if (character === 'A' || character === 'Z' || character === 'z') return '';
    if (/[A-Za-z0-9]/.test(character)) throw new Unreadable();
    return character;
  }

  /** How often the part that was read is repeated; `length`: its characters. */
  #count(length: number): number {
    const [quantifier = ''] = /^(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})[?+]?/.exec(this.#pattern.slice(this.#at)) ?? [];
    if (quantifier === '') return 1;
    this.#at += quantifier.length;
    const [, least = '', comma, most = ''] = /^\{(\d+)(,?)(\d*)/.exec(quantifier) ?? [];
    const [low, high] =
      least !== ''
        ? [Number(least), comma === '' ? Number(least) : most === '' ? Infinity : Number(most)]
        : [quantifier.startsWith('+') ? 1 : 0, quantifier.startsWith('?') ? 1 : Infinity];
    const more = length === 0 ? 0 : Math.min(high - low, Math.ceil(this.#more / length));
    this.#more = Math.max(0, this.#more - more * length);
    return Math.min(low + more, MAX_TEXT);
  }

  #peek(): string {
    return this.#pattern[this.#at] ?? '';
  }

  #take(): string {
    const character = this.#peek();
    if (character === '') throw new Unreadable();
    this.#at += 1;
    return character;
  }
}
