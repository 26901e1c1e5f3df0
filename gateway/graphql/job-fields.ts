/** Fields of jobs, their logs and their webhooks. */
import { CapstanError } from '../../lib/errors.ts';
import { cursorOf, endOf, logRequest, logWaitMs } from '../logs/query.ts';
import { unlessAborted } from '../logs/unless-aborted.ts';
import { whole } from './endpoint-form.ts';
import { bulkMessage, bulkShape, filterMessage, jobShape, summaryShape } from './job-shape.ts';
import { logShape, webhookShape } from './shapes.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { orNull, timeOrNull } from './message-values.ts';

export function jobFields({ calls, call, change, draining }: Fields) {
  return {
    jobs: async ({ endpoint, filter, limit, cursor }) => {
      const page = await call((control) => control.searchJobs, {
        endpointId: endpoint,
        ...filterMessage(filter),
        cursor: cursor ?? '',
        limit: whole('limit', limit ?? 0),
      });
      return { jobs: page.jobs.map(jobShape), cursor: orNull(page.cursor), incomplete: page.incomplete };
    },
    jobSummary: async ({ endpoint, filter }) =>
      summaryShape(await call((control) => control.summarizeJobs, { endpointId: endpoint, filter: filterMessage(filter) })),
    countJobs: async (args) => {
      const { count, incomplete } = await call((control) => control.countJobs, bulkMessage(args));
      return { count: Number(count), incomplete };
    },
    bulkOperations: async ({ endpoint }) =>
      (await call((control) => control.listBulkOperations, { endpointId: endpoint ?? '' })).operations.map(bulkShape),
    startBulkOperation: async (args) => bulkShape(await change((control) => control.startBulkOperation, bulkMessage(args))),
    stopBulkOperation: async ({ id }) => bulkShape(await change((control) => control.stopBulkOperation, { id })),
    job: async ({ endpoint, id }) => {
      try {
        return jobShape(await call((control) => control.getJob, { endpointId: endpoint ?? '', jobId: id }));
      } catch (thrown) {
        if (thrown instanceof CapstanError && thrown.code === 'NOT_FOUND') return null;
        throw thrown;
      }
    },
    logs: async ({ endpoint, worker, limit, afterMs }) => {
      const after = BigInt(Math.max(0, Math.trunc(afterMs ?? 0)));
      const request = { endpointId: endpoint, workerId: worker ?? '', limit: whole('limit', limit ?? 0), afterMs: after };
      return (await call((control) => control.getLogs, request)).lines.map(logShape);
    },
    searchLogs: async ({ endpoint, filter, limit, cursor: from, waitMs: longest }) => {
      const query = { ...filter, cursor: from };
      const waitMs = logWaitMs(whole('waitMs', longest ?? 0), calls.timeoutMs);
      const request = logRequest(endpoint, query, whole('limit', limit ?? 0), waitMs);
      const search = call((control) => control.getLogs, request);
      const page = waitMs === 0 ? await search : await unlessAborted(search, draining);
      if (page === undefined) throw new CapstanError('UNAVAILABLE', 'the gateway is about to close', { retryAfterMs: 1_000 });
      const { lines, incomplete, missingNodes, unfilteredNodes } = page;
      const cursor = cursorOf(page, query.oldestFirst === true);
      return { lines: lines.map(logShape), cursor, incomplete, missingNodes, unfilteredNodes, end: endOf(page, query, Date.now()) };
    },
    webhooks: async ({ after, limit, newestFirst }) => {
      const request = { afterId: after ?? '', limit: whole('limit', limit ?? 0), newestFirst: newestFirst === true };
      const page = await call((control) => control.listWebhooks, request);
      return { webhooks: page.webhooks.map(webhookShape), next: orNull(page.nextAfterId) };
    },
    webhookSecret: async () => (await call((control) => control.getWebhookSecret, {})).secret,
    redeliverWebhook: async ({ id }) => {
      await change((control) => control.redeliverWebhook, { id });
      return id;
    },
    rotateWebhookSecret: async () => {
      const { secret, previousUntilMs } = await change((control) => control.rotateWebhookSecret, {});
      return { secret, previousUntil: timeOrNull(previousUntilMs ?? 0n) };
    },
  } satisfies Partial<Schema.Root>;
}
