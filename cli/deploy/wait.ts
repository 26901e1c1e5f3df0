/** The end of `capstan deploy`: waits for the releases and says which of them do not serve, with the error and the last log lines. */
import { CapstanError } from '../../lib/errors.ts';
import { searchLogs } from '../api/logs.ts';
import { startWorker } from '../api/worker-start.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { retrying } from './deploy.ts';
import { waitUntilReady, type Readiness, type Waited } from './readiness.ts';

const LOG_LINES = 15;

export interface WaitOptions {
  readonly timeoutMs: number;
  /** `--strict`: an endpoint that no node can run is an error, too. */
  readonly isStrict: boolean;
  readonly terminal: Terminal;
}

/** Returns those that do not serve. An older service cannot say, which is no error. */
export async function waitForReleases(
  client: GatewayClient,
  endpoints: readonly Waited[],
  { timeoutMs, isStrict, terminal }: WaitOptions,
): Promise<readonly Readiness[]> {
  const start = (id: string): ReturnType<typeof startWorker> =>
    retrying(
      () => startWorker(client, id),
      terminal,
      () => 1,
    );
  try {
    const found = await waitUntilReady(endpoints, { start, terminal, timeoutMs });
    for (const each of found) {
      if (each.kind === 'replaced') terminal.warn(`${each.endpoint.name}: another deployment replaced this one`);
      if (each.kind === 'no-node' && !isStrict)
        terminal.warn(`${each.endpoint.name}: ${each.reason}; it serves once a node joins that can`);
    }
    return found.filter(({ kind }) => kind === 'failed' || kind === 'late' || (isStrict && kind === 'no-node'));
  } catch (error) {
    if (!(error instanceof CapstanError) || !/startWorker/i.test(error.message)) throw error;
    terminal.warn('the service is of an earlier version, which cannot say when a release serves; capstan endpoints get shows its workers');
    return [];
  }
}

/** Prints the error of each, and the last lines of its logs. */
export async function explainFailures(client: GatewayClient, failed: readonly Readiness[], terminal: Terminal): Promise<void> {
  for (const each of failed) {
    const { name, id, releaseId } = each.endpoint;
    if (each.kind === 'failed') terminal.fail(`${name} does not start: ${each.failures} consecutive starts failed: ${each.error}`);
    if (each.kind === 'late') terminal.fail(`${name} does not serve yet: ${each.reason}`);
    if (each.kind === 'no-node') terminal.fail(`${name}: ${each.reason}`);
    const page = each.kind === 'no-node' ? null : await logsOf(client, id, releaseId);
    if (page !== null && page.length > 0) terminal.line(`Last lines of its log:\n${page.map((line) => `  ${line}`).join('\n')}`);
    terminal.hint(
      each.kind === 'failed'
        ? 'Correct it and deploy again. The former release serves load-balanced requests meanwhile, if there was one: capstan rollback returns to it.'
        : `capstan endpoints get ${name} says what it waits for; --wait-timeout waits longer, --no-wait not at all.`,
    );
  }
}

/** The error was said already: without its logs the deployment has the same result. */
async function logsOf(client: GatewayClient, id: string, release: string): Promise<readonly string[] | null> {
  try {
    const { lines } = await searchLogs(client, id, { release }, { limit: LOG_LINES, cursor: null });
    return lines.map(({ text }) => text.replace(/\r$/, ''));
  } catch (error) {
    if (error instanceof CapstanError) return null;
    throw error;
  }
}
