/** Groups the errors of jobs by their text, up to what differs from one job to the next. Pure. */

export interface ErrorGroup {
  /** The part of the error that all jobs of the group have, as it is stored: a filter by this text finds them. */
  readonly text: string;
  /** The same, as people read it. */
  readonly message: string;
  /** Whether the errors go on, and differ there. */
  readonly isCut: boolean;
  readonly count: number;
}

const MAX_TEXT = 200;
/** Characters that the common part must have: a shorter one says too little. */
const MIN_TEXT = 12;
/** Distinct texts that are told apart; the errors of later ones are not grouped. */
const MAX_GROUPS = 500;
/** Handlers' errors are JSON. */
const MESSAGE = /"error_message":\s*"((?:[^"\\]|\\.)*)"/;
/** Where errors begin to differ: at a number, a quotation, a path, an identifier, or the next line (of which JSON has an escape). */
const VARIABLE = /[\d"'`/\\\n<]/;

export class ErrorGroups {
  readonly #groups = new Map<string, ErrorGroup>();

  /** A blank error has no group: no text finds it. */
  add(error: string): void {
    const { text, message, isCut } = commonPart(error);
    if (text === '') return;
    const known = this.#groups.get(text);
    if (known !== undefined) this.#groups.set(text, { ...known, count: known.count + 1 });
    else if (this.#groups.size < MAX_GROUPS) this.#groups.set(text, { text, message, isCut, count: 1 });
  }

  /** The groups with most errors, the largest first. */
  largest(count: number): readonly ErrorGroup[] {
    return [...this.#groups.values()].toSorted((a, b) => b.count - a.count).slice(0, count);
  }
}

function commonPart(error: string): Omit<ErrorGroup, 'count'> {
  const [member, raw] = MESSAGE.exec(error) ?? [];
  const whole = raw ?? error;
  const differs = whole.search(VARIABLE);
  const hasCommon = differs >= MIN_TEXT;
  const text = (hasCommon ? whole.slice(0, differs) : wholeEscapes(whole.slice(0, MAX_TEXT))).slice(0, MAX_TEXT).trimEnd();
  const isCut = text.length < whole.trimEnd().length;
  if (member === undefined || raw === undefined) return { text, message: text, isCut };
  // A short message is part of many other texts, and an empty one of all: with its name it is not.
  return { text: raw.length < MIN_TEXT ? member : text, message: decoded(text), isCut };
}

/** Without an escape of JSON that was cut. */
function wholeEscapes(text: string): string {
  return text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i, '$1');
}

function decoded(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}
