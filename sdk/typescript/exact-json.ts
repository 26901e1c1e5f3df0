/**
 * JSON whose integers keep all their digits. JSON.parse rounds those beyond 2^53; here they become BigInts, and are
 * written as the same digits. The SDK has the same file.
 */

/** A number of the text has no value that stands for it; the message says which. */
export class NumberOutOfRange extends SyntaxError {}

/** The longest integer that is read, digits: as in Python. Reading takes quadratic time. */
const MAX_DIGITS = 4_300;
/** Text in which a number may begin with as many digits as can be lost; or whose exponent may be too large. */
const LONG = /[[,:\s]-?\d{16}/;
const FIRST = /^-?\d{16}/;
const LARGE = /[eE]\+?\d{3}/;
const INTEGER = /^-?\d+$/;

/** The parts of JSON that TypeScript does not describe: the source text of numbers. */
interface SourceJson {
  parse(text: string, reviver: (key: string, value: unknown, context?: { readonly source?: string }) => unknown): unknown;
  readonly rawJSON?: (text: string) => object;
}
const source = JSON as unknown as SourceJson;

/**
 * As JSON.parse, but integers beyond 2^53 become BigInts.
 * @throws SyntaxError; NumberOutOfRange for a number such as 1e400, and for an integer of more than 4,300 digits
 */
export function parseExact(text: string): unknown {
  // A reviver is slow, and few texts need one.
  const mayLose = LONG.test(text) || LARGE.test(text) || FIRST.test(text);
  return mayLose ? source.parse(text, exactValue) : (JSON.parse(text) as unknown);
}

function exactValue(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const text = context?.source;
  if (text === undefined) {
    if (Number.isInteger(value)) throw new NumberOutOfRange(`the integer ${value} cannot be read exactly by this version of JavaScript`);
    return value;
  }
  if (INTEGER.test(text)) {
    if (text.length > MAX_DIGITS) throw new NumberOutOfRange(`the integer ${text.slice(0, 20)}… has more than ${MAX_DIGITS} digits`);
    return BigInt(text);
  }
  if (!Number.isFinite(value)) throw new NumberOutOfRange(`the number ${text.slice(0, 40)} is beyond the range of a number`);
  return value;
}

/** Returns what JSON.stringify writes as the digits of an integer. @throws TypeError where it cannot */
export function rawInteger(value: bigint): object {
  if (source.rawJSON === undefined) throw new TypeError('this version of JavaScript cannot write a BigInt as JSON');
  return source.rawJSON(value.toString());
}

/** As JSON.stringify, with BigInts as integers. */
export function stringifyExact(value: unknown, space?: number): string {
  try {
    return JSON.stringify(value, undefined, space);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // It contains a BigInt; for anything else the second attempt throws the same.
    return JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? rawInteger(each) : each), space);
  }
}

/** The integer has digits that a number cannot hold. */
export function losesDigits(text: string): boolean {
  return INTEGER.test(text) && !Number.isSafeInteger(Number(text));
}
