/** Fields of jobs, their logs and their webhooks. */
import { CapstanError } from '../../lib/errors.ts';
import { cursorOf, endOf, logRequest, logWaitMs, type LogQuery } from '../logs/query.ts';
import { unlessAborted } from '../logs/unless-aborted.ts';
import { whole } from './endpoint-form.ts';
import { bulkMessage, bulkShape, filterMessage, jobShape, summaryShape, type BulkArguments, type JobSearch } from './job-shape.ts';
import { logShape, time, webhookShape } from './shapes.ts';
import type { Fields } from './fields.ts';
import type { Optional, Page } from './pages.ts';

interface LogSearchArguments {
  readonly endpoint: string;
  readonly filter?: Optional<LogQuery>;
  readonly limit?: Optional<number>;
  readonly cursor?: Optional<string>;
  readonly waitMs?: Optional<number>;
}

export function jobFields({ calls, call, change, draining }: Fields) {
  return {
    jobs: async ({ endpoint, filter, limit, cursor }: JobSearch) => {
      const page = await call((control) => control.searchJobs, {
        endpointId: endpoint,
        ...filterMessage(filter),
        cursor: cursor ?? '',
        limit: whole('limit', limit ?? 0),
      });
      return { jobs: page.jobs.map(jobShape), cursor: page.cursor === '' ? null : page.cursor, incomplete: page.incomplete };
    },
    jobSummary: async ({ endpoint, filter }: Pick<JobSearch, 'endpoint' | 'filter'>) =>
      summaryShape(await call((control) => control.summarizeJobs, { endpointId: endpoint, filter: filterMessage(filter) })),
    countJobs: async (given: BulkArguments) => {
      const { count, incomplete } = await call((control) => control.countJobs, bulkMessage(given));
      return { count: Number(count), incomplete };
    },
    bulkOperations: async ({ endpoint }: { endpoint?: Optional<string> }) =>
      (await call((control) => control.listBulkOperations, { endpointId: endpoint ?? '' })).operations.map(bulkShape),
    startBulkOperation: async (given: BulkArguments) =>
      bulkShape(await change((control) => control.startBulkOperation, bulkMessage(given))),
    stopBulkOperation: async ({ id }: { id: string }) => bulkShape(await change((control) => control.stopBulkOperation, { id })),
    job: async ({ endpoint, id }: { endpoint: string; id: string }) => {
      try {
        return jobShape(await call((control) => control.getJob, { endpointId: endpoint, jobId: id }));
      } catch (thrown) {
        if (thrown instanceof CapstanError && thrown.code === 'NOT_FOUND') return null;
        throw thrown;
      }
    },
    logs: async (asked: { endpoint: string; worker?: Optional<string>; limit?: Optional<number>; afterMs?: Optional<number> }) => {
      const { endpoint, worker, limit, afterMs } = asked;
      const after = BigInt(Math.max(0, Math.trunc(afterMs ?? 0)));
      const request = { endpointId: endpoint, workerId: worker ?? '', limit: whole('limit', limit ?? 0), afterMs: after };
      return (await call((control) => control.getLogs, request)).lines.map(logShape);
    },
    searchLogs: async (asked: LogSearchArguments) => {
      const query = { ...asked.filter, cursor: asked.cursor };
      const waitMs = logWaitMs(whole('waitMs', asked.waitMs ?? 0), calls.timeoutMs);
      const request = logRequest(asked.endpoint, query, whole('limit', asked.limit ?? 0), waitMs);
      const search = call((control) => control.getLogs, request);
      const page = waitMs === 0 ? await search : await unlessAborted(search, draining);
      if (page === undefined) throw new CapstanError('UNAVAILABLE', 'the gateway is about to close', { retryAfterMs: 1_000 });
      const { lines, incomplete, missingNodes, unfilteredNodes } = page;
      const cursor = cursorOf(page, query.oldestFirst === true);
      return { lines: lines.map(logShape), cursor, incomplete, missingNodes, unfilteredNodes, end: endOf(page, query, Date.now()) };
    },
    webhooks: async ({ after, limit, newestFirst }: Page & { newestFirst?: Optional<boolean> }) => {
      const request = { afterId: after ?? '', limit: whole('limit', limit ?? 0), newestFirst: newestFirst === true };
      const page = await call((control) => control.listWebhooks, request);
      return { webhooks: page.webhooks.map(webhookShape), next: page.nextAfterId === '' ? null : page.nextAfterId };
    },
    webhookSecret: async () => (await call((control) => control.getWebhookSecret, {})).secret,
    redeliverWebhook: async ({ id }: { id: string }) => {
      await change((control) => control.redeliverWebhook, { id });
      return id;
    },
    rotateWebhookSecret: async () => {
      const { secret, previousUntilMs } = await change((control) => control.rotateWebhookSecret, {});
      return { secret, previousUntil: time(previousUntilMs ?? 0n) };
    },
  };
}
