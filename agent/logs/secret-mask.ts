/**
 * Masks the secrets of an endpoint's environment in what its workers print. A value counts as a secret if it has at least
 * MIN_SECRET characters and is a secret of the account, or its name suggests one (API_KEY, DB_PASSWORD), if it is an address with credentials, or if it looks
 * random: at least MIN_RANDOM characters of letters and digits mixed, without a slash or a space. Lines of a value with several lines
 * are masked one by one.
 *
 * A tenant chooses both the secrets and the lines, and the agent serves others meanwhile: long values are searched in pieces, whose
 * search takes time in proportion to the line, and all lines of an account share a budget of time. Lines beyond it are withheld.
 */

/** Shorter values are not masked: they occur in ordinary text, characters. */
export const MIN_SECRET = 8;
/** Least length of a value that is masked whatever its name, characters. */
export const MIN_RANDOM = 16;
export const MASK = '[masked]';
/** Stands for a line that was not searched for secrets. */
export const WITHHELD = '[withheld: searching this output for the secrets of the environment takes too long]';
/** Longer values are masked in pieces of this length, characters. */
const PIECE = 200;
/** A line this long may be a piece of a longer one, characters. */
const CUT_LINE = 16_384;
/** Least part of a secret that is masked at the end of such a piece, characters. */
const MIN_PART = 4;

const SECRET_NAME = /key|token|secret|pass|pwd|credential|auth|private|cookie|session|salt|signature|cert/i;
/** A variable that holds a path, not the secret itself. */
const PATH_NAME = /_(?:file|path|dir)$/i;
/** User information, or a parameter that suggests a secret. */
const WITH_CREDENTIALS = /:\/\/[^/\s]*@|[?&;]\w*(?:key|token|pass|secret|sig)\w*=/i;

/** Returns the texts to mask, longest first. `secrets`: values that are secrets whatever their variables are called. */
export function secretsOf(env: Readonly<Record<string, string>>, secrets: readonly string[] = []): string[] {
  const found = new Set<string>();
  const suspected = Object.entries(env).flatMap(([name, value]) => (isSecret(name, value) ? [value] : []));
  for (const value of [...secrets, ...suspected]) {
    for (const line of value.split(/\r?\n/)) {
      for (const form of [line.trim(), JSON.stringify(line.trim()).slice(1, -1)]) for (const piece of piecesOf(form)) found.add(piece);
    }
  }
  return [...found].toSorted((a, b) => b.length - a.length);
}

function isSecret(name: string, value: string): boolean {
  if (PATH_NAME.test(name)) return false;
  return SECRET_NAME.test(name) || WITH_CREDENTIALS.test(value) || looksRandom(value);
}

function looksRandom(value: string): boolean {
  return value.length >= MIN_RANDOM && /[a-z]/i.test(value) && /\d/.test(value) && !/[\s/\\]/.test(value);
}

/** A short rest belongs to the piece before. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += PIECE) {
    const end = text.length - at - PIECE < MIN_SECRET ? text.length : at + PIECE;
    if (end - at >= MIN_SECRET) pieces.push(text.slice(at, end));
    if (end === text.length) break;
  }
  return pieces;
}

/** Time of each window, ms, and how much of it the lines of one account may take, ms. */
const WINDOW_MS = 1_000;
const BUDGET_MS = 50;
/** Secrets searched between two looks at the clock. */
const SEARCHES_A_LOOK = 16;

/** The time that searching for the secrets of one account takes. */
export class MaskBudget {
  readonly #now: () => number;
  #windowAt = Number.NEGATIVE_INFINITY;
  #spentMs = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get now(): number {
    return this.#now();
  }

  /** Whether a search that began then has used the budget up. */
  isSpent(begunAt: number): boolean {
    const now = this.#now();
    if (now - this.#windowAt >= WINDOW_MS) {
      this.#windowAt = now;
      this.#spentMs = 0;
    }
    return this.#spentMs + now - begunAt > BUDGET_MS;
  }

  spend(begunAt: number): void {
    this.#spentMs += this.#now() - begunAt;
  }
}

/** Masks the lines of one stream of one worker, in order: a secret may be cut between two pieces of a long line. */
export class SecretMask {
  readonly #secrets: readonly string[];
  readonly #budget: MaskBudget;
  /** Ends of secrets whose beginnings ended the last piece. */
  #expected: string[] = [];

  constructor(env: Readonly<Record<string, string>>, budget: MaskBudget = new MaskBudget(), secrets: readonly string[] = []) {
    this.#secrets = secretsOf(env, secrets);
    this.#budget = budget;
  }

  apply(line: string): string {
    if (this.#secrets.length === 0) return line;
    const begunAt = this.#budget.now;
    const text = this.#search(line, begunAt);
    this.#budget.spend(begunAt);
    if (text === undefined) this.#expected = [];
    return text ?? WITHHELD;
  }

  /** Returns undefined when the budget is spent. */
  #search(line: string, begunAt: number): string | undefined {
    let text = line;
    const rest = this.#expected.find((end) => text.startsWith(end));
    if (rest !== undefined) text = MASK + text.slice(rest.length);
    this.#expected = [];
    let longest = 0;
    for (const [at, secret] of this.#secrets.entries()) {
      if (at % SEARCHES_A_LOOK === 0 && this.#budget.isSpent(begunAt)) return undefined;
      if (text.includes(secret)) text = text.replaceAll(secret, MASK);
    }
    if (line.length < CUT_LINE) return text;
    for (const [at, secret] of this.#secrets.entries()) {
      if (at % SEARCHES_A_LOOK === 0 && this.#budget.isSpent(begunAt)) return undefined;
      for (let part = secret.length - 1; part >= MIN_PART; part -= 1) {
        if (!text.endsWith(secret.slice(0, part))) continue;
        this.#expected.push(secret.slice(part));
        longest = Math.max(longest, part);
      }
    }
    return longest === 0 ? text : text.slice(0, -longest) + MASK;
  }
}
