/** Calls that are held until there is something to answer. */

interface Parked<Request, Answer> {
  readonly request: Request;
  readonly answer: (answer: Answer) => void;
}

export class LongPolls<Request, Answer> {
  readonly #parked = new Set<Parked<Request, Answer>>();
  readonly #empty: Answer;

  /** `empty`: the answer when nothing came. */
  constructor(empty: Answer) {
    this.#empty = empty;
  }

  get size(): number {
    return this.#parked.size;
  }

  /** Holds a call for `ms` at most, or until its caller is gone. */
  async hold(request: Request, ms: number, gone: AbortSignal): Promise<Answer> {
    if (gone.aborted) return this.#empty;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const parked: Parked<Request, Answer> = { request, answer: resolve };
    this.#parked.add(parked);
    const giveUp = (): void => resolve(this.#empty);
    const timer = setTimeout(giveUp, ms);
    gone.addEventListener('abort', giveUp, { once: true });
    try {
      return await promise;
    } finally {
      this.#parked.delete(parked);
      clearTimeout(timer);
      gone.removeEventListener('abort', giveUp);
    }
  }

  /** Offers each held call, oldest first, what it may be answered with; `undefined` leaves it waiting. */
  serve(answerOf: (request: Request) => Answer | undefined): void {
    for (const parked of this.#parked) {
      const answer = answerOf(parked.request);
      if (answer === undefined) continue;
      this.#parked.delete(parked);
      parked.answer(answer);
    }
  }

  release(): void {
    this.serve(() => this.#empty);
  }
}
