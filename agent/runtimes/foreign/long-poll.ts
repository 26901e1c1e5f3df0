/** Calls that are held until a response is available. */

interface Parked<Request, Answer> {
  readonly request: Request;
  readonly answer: (answer: Answer) => void;
}

export class LongPolls<Request, Answer> {
  readonly #parked = new Set<Parked<Request, Answer>>();
  readonly #empty: Answer;

  /** `empty`: the response after the time-out. */
  constructor(empty: Answer) {
    this.#empty = empty;
  }

  get size(): number {
    return this.#parked.size;
  }

  /** Holds a call for at most `ms`, or until its caller disconnects. */
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

  /** Offers a response to each held call, oldest first; `undefined` leaves the call waiting. */
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
