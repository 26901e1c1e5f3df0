/** Warnings of failed deliveries: the first failure of a host at once, those of each minute after it summed up in one line. */
import { present } from '../../../lib/invariant.ts';
import type { StepContext } from '../context.ts';

/** Time for which the failures of a host are summed up, ms. */
const WARN_MS = 60_000;
/** Hosts that are told apart; further ones are summed up together. */
const MAX_HOSTS = 100;
const OTHER_HOSTS = 'others';

/** A failed try. The host without the path: a webhook's path and query often are its secret. */
interface FailedTry {
  readonly webhook: string;
  readonly endpoint: string;
  readonly host: string;
  readonly tries: number;
  readonly error: string | null;
}

/** Logs a failed try, or counts it for the next warning of its host. */
export function warnOfFailure(ctx: StepContext, facts: FailedTry, isLast: boolean): void {
  const { warnings } = ctx.state.deliveries;
  const host = warnings.has(facts.host) || warnings.size < MAX_HOSTS ? facts.host : OTHER_HOSTS;
  const counted = warnings.get(host);
  if (counted !== undefined) {
    counted.failed++;
    if (isLast) counted.exhausted++;
    counted.error = facts.error;
    return;
  }
  warnings.set(host, { failed: 0, exhausted: 0, error: null });
  ctx.state.deadlines.add(ctx.now.mono + WARN_MS, { kind: 'webhook-warning', host });
  ctx.emit({
    kind: 'log',
    level: 'warn',
    message: isLast ? 'webhook failed; no attempts left' : 'webhook attempt failed',
    facts: { ...facts },
  });
}

/** A minute after a warning: sums up what failed since then. */
export function warningDue(ctx: StepContext, host: string): void {
  const { warnings } = ctx.state.deliveries;
  const counted = present(warnings.get(host), 'a warning is due while its host is counted', { host });
  if (counted.failed === 0) {
    warnings.delete(host);
    return;
  }
  warnings.set(host, { failed: 0, exhausted: 0, error: null });
  ctx.state.deadlines.add(ctx.now.mono + WARN_MS, { kind: 'webhook-warning', host });
  const facts = { host, ...counted, seconds: WARN_MS / 1_000 };
  ctx.emit({ kind: 'log', level: 'warn', message: 'webhook attempts failed', facts });
}
