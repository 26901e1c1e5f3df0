/**
 * Masks the secrets of an endpoint's environment in what its workers print. A value counts as a secret if it has at least
 * MIN_SECRET characters and its name suggests one (API_KEY, DATABASE_URL …), or if it looks random: at least MIN_RANDOM characters
 * of letters and digits mixed, without a slash or a space. Lines of a value with several lines are masked one by one.
 */

/** Shorter values are not masked: they occur in ordinary text, characters. */
export const MIN_SECRET = 8;
/** Least length of a value that is masked whatever its name, characters. */
export const MIN_RANDOM = 16;
export const MASK = '[masked]';
/** A line this long may be a piece of a longer one, characters. */
const CUT_LINE = 16_384;
/** Least part of a secret that is masked at the end of such a piece, characters. */
const MIN_PART = 4;

const SECRET_NAME = /key|token|secret|pass|pwd|credential|auth|private|dsn|ur[li]$|cookie|session|salt|signature|cert/i;

/** Returns the texts to mask, longest first. */
export function secretsOf(env: Readonly<Record<string, string>>): string[] {
  const found = new Set<string>();
  for (const [name, value] of Object.entries(env)) {
    if (!SECRET_NAME.test(name) && !looksRandom(value)) continue;
    for (const line of value.split(/\r?\n/)) {
      for (const form of [line.trim(), JSON.stringify(line.trim()).slice(1, -1)]) if (form.length >= MIN_SECRET) found.add(form);
    }
  }
  return [...found].toSorted((a, b) => b.length - a.length);
}

function looksRandom(value: string): boolean {
  return value.length >= MIN_RANDOM && /[a-z]/i.test(value) && /\d/.test(value) && !/[\s/\\]/.test(value);
}

/** Masks the lines of one stream of one worker, in order: a secret may be cut between two pieces of a long line. */
export class SecretMask {
  readonly #secrets: readonly string[];
  /** Ends of secrets whose beginnings ended the last piece. */
  #expected: string[] = [];

  constructor(env: Readonly<Record<string, string>>) {
    this.#secrets = secretsOf(env);
  }

  apply(line: string): string {
    if (this.#secrets.length === 0) return line;
    let text = line;
    const rest = this.#expected.find((end) => text.startsWith(end));
    if (rest !== undefined) text = MASK + text.slice(rest.length);
    for (const secret of this.#secrets) if (text.includes(secret)) text = text.replaceAll(secret, MASK);
    this.#expected = [];
    if (line.length < CUT_LINE) return text;
    let longest = 0;
    for (const secret of this.#secrets) {
      for (let part = secret.length - 1; part >= MIN_PART; part -= 1) {
        if (!text.endsWith(secret.slice(0, part))) continue;
        this.#expected.push(secret.slice(part));
        longest = Math.max(longest, part);
      }
    }
    return longest === 0 ? text : text.slice(0, -longest) + MASK;
  }
}
