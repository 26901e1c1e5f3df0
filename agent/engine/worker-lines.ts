/** Turns what workers print into log lines: adds the release and the attempt, and masks the secrets of the endpoint's environment. */
import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { traceParent } from '../../lib/trace-context.ts';
import type { TraceContext } from '../logs/forwarding/log-record.ts';
import type { PrintedLine } from '../logs/log-store.ts';
import { MaskBudget, SecretMask } from '../logs/secret-mask.ts';
import type { LogEntry } from '../runtimes/runtime.ts';

interface Attempt {
  readonly attempt: number;
  /** Of its span; absent without one. */
  readonly trace?: TraceContext;
}

/** At least so many of the latest jobs are remembered for lines that arrive after their end, and at most twice as many. */
const MANY_JOBS = 5_000;

export class WorkerLines {
  readonly #onLine: (line: PrintedLine) => void;
  /** The latest attempt here of recent jobs, and of those before them: dropping single ones would cost more than all the rest. */
  #attempts = new Map<string, Attempt>();
  #earlier: ReadonlyMap<string, Attempt> = new Map();
  /** By account: one tenant's output takes no time from the others'. */
  readonly #budgets = new Map<string, MaskBudget>();

  constructor(onLine: (line: PrintedLine) => void) {
    this.#onLine = onLine;
  }

  /** `trace`: the context of the attempt's handler; empty without one. */
  attemptStarts(jobId: string, attempt: number, trace: string): void {
    if (this.#attempts.size >= MANY_JOBS) {
      this.#earlier = this.#attempts;
      this.#attempts = new Map();
    }
    this.#attempts.set(jobId, trace === '' ? { attempt } : { attempt, trace: contextOf(trace) });
  }

  /** Returns the receiver of the lines of one start of a worker. `env`: its whole environment, whose secrets are masked. */
  of(
    workerId: string,
    { endpointId, releaseId, accountId = '', secrets }: ReleaseSpec,
    env: Readonly<Record<string, string>>,
  ): (entry: LogEntry) => void {
    const masks = new Map<string, SecretMask>();
    return ({ stream, jobId, text }) => {
      let mask = masks.get(stream);
      if (mask === undefined) masks.set(stream, (mask = new SecretMask(env, this.#budgetOf(accountId), secrets)));
      const attempt = (jobId === '' ? undefined : (this.#attempts.get(jobId) ?? this.#earlier.get(jobId))) ?? { attempt: 0 };
      this.#onLine({ endpointId, workerId, releaseId, jobId, ...attempt, stream, text: mask.apply(text) });
    };
  }

  /** Adds a line of the agent about a worker. */
  system(workerId: string, release: ReleaseSpec | undefined, text: string): void {
    const { endpointId = '', releaseId = '', accountId = '', env = {}, secrets = [] } = release ?? {};
    const mask = new SecretMask(env, this.#budgetOf(accountId), secrets);
    this.#onLine({ endpointId, workerId, releaseId, jobId: '', attempt: 0, stream: 'system', text: mask.apply(text) });
  }

  #budgetOf(account: string): MaskBudget {
    let budget = this.#budgets.get(account);
    if (budget === undefined) this.#budgets.set(account, (budget = new MaskBudget()));
    return budget;
  }
}

function contextOf(trace: string): TraceContext {
  const { traceId, spanId, flags } = traceParent(trace);
  return { traceId, spanId, isSampled: (flags & 1) === 1 };
}
