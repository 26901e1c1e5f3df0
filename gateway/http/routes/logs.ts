/**
 * GET /v2/<endpoint>/logs: what the workers of an endpoint printed, as lines of JSON, or as server-sent events where the
 * caller accepts them. Load-balanced endpoints have logs, too.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError } from '../../../lib/errors.ts';
import { stringifyExact } from '../../../lib/exact-json.ts';
import { LOG_LEVELS, LOG_STREAMS, MAX_PATTERN } from '../../../lib/log-filter.ts';
import type { GetLogsResponse } from '../../../proto/gen/capstan/v1/control.ts';
import { keyText } from '../../auth/authenticate.ts';
import type { Key } from '../../directory/directory.ts';
import { noEndpoint } from '../../directory/permission.ts';
import { ControlCalls } from '../../graphql/control-calls.ts';
import { peerOfRequest } from '../forwarded.ts';
import { cursorOf, logRequest, logRow, MAX_LOG_LINES, logWaitMs, type LogQuery } from '../../logs/query.ts';
import { unlessAborted } from '../../logs/unless-aborted.ts';
import { onResponseClosed } from '../client-disconnect.ts';
import { endpointId } from '../guard.ts';
import { nameOfKey } from '../key-rates.ts';
import { sendFailure, toCapstanError } from '../problem.ts';
import { endpointParams } from '../schemas.ts';
import type { Services } from '../services.ts';
import { described } from './describe.ts';

/** Pause of a follower after lines, ms: lines are sent at most four times a second. */
const PAUSE_MS = 250;
/** Interval at which a follower looks for new lines where the scheduler or an agent does not wait for them, ms. */
const FOLLOW_MS = 1_000;
/** A silent connection gets a comment this often, so that proxies keep it, ms. */
const KEEP_ALIVE_MS = 15_000;
/**
 * Cost of a page, in times of writing its text: the scheduler and the agent work on it, too, and the gateway has decoded it. A key
 * reads about 40,000 lines a second.
 */
const PAGE_COST = 4;
/** Open followers of one key at this gateway. */
const MAX_FOLLOWERS = 32;
/** Header with the cursor of the next page. Absent at the end of the newest lines first; with order=oldest lines may still come. */
export const LOG_CURSOR_HEADER = 'capstan-log-cursor';

/** Headers with the ids of nodes whose lines are missing: no reply, or an agent of an earlier version, which knows no filters. */
const MISSING_NODES_HEADER = 'capstan-log-missing-nodes';
const UNFILTERED_NODES_HEADER = 'capstan-log-unfiltered-nodes';
/** Most nodes that a header names. */
const MAX_NAMED = 100;

const id = z.string().max(128);
const time = z
  .string()
  .max(40)
  .refine((text) => !Number.isNaN(timeOf(text)), 'must be an RFC 3339 time, or ms since the Unix epoch');
const logsQuery = z.object({
  worker: id.optional(),
  job: id.optional(),
  release: id.optional(),
  stream: z.enum(LOG_STREAMS, `must be one of ${LOG_STREAMS.join(', ')}`).optional(),
  level: z
    .enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`)
    .optional()
    .meta({ description: 'Minimum level. Lines without a level count as info.' }),
  contains: z.string().max(1_000).optional().meta({ description: 'Text that the line contains, case-sensitive.' }),
  pattern: z.string().max(MAX_PATTERN).optional().meta({ description: 'RE2 expression that matches some part of the line.' }),
  since: time.optional().meta({ description: 'Time, inclusive: RFC 3339, or ms since the Unix epoch.' }),
  until: time.optional().meta({ description: 'Time, exclusive: RFC 3339, or ms since the Unix epoch.' }),
  order: z
    .enum(['newest', 'oldest'], 'must be newest or oldest')
    .optional()
    .meta({ description: 'The newest matching lines (default), or the oldest. Lines are always in the order of time.' }),
  limit: z.coerce.number().int().min(1).max(MAX_LOG_LINES, `must be an integer between 1 and ${MAX_LOG_LINES}`).optional(),
  cursor: z
    .string()
    .max(300)
    .optional()
    .meta({ description: `The value of ${LOG_CURSOR_HEADER} of the page before.` }),
  follow: z
    .enum(['true', 'false'], 'must be true or false')
    .optional()
    .meta({ description: 'Keep the response open and send new lines as they are printed.' }),
});
type LogsQuery = z.output<typeof logsQuery>;

const logsAnswer = z
  .string()
  .meta({ description: 'One JSON object per line: at, worker, release, job, attempt, stream, level, text, fields.' });

/** Reads the pages of one caller. `waitMs`: how long to wait for a first line. */
type ReadPage = (query: LogQuery, limit: number, waitMs?: number) => Promise<GetLogsResponse>;

export function logRoutes(app: FastifyInstance, services: Services): void {
  const { authenticator, cells, config, keyRates, lookup } = services;
  const followers = new Map<string, number>();

  async function reader(request: FastifyRequest): Promise<{ readonly read: ReadPage; readonly key: Key }> {
    const key = await authenticator.authenticate(request.headers.authorization, peerOfRequest(request.raw, services.proxies));
    await keyRates.take(key, request.headers.authorization, services.now());
    const endpoint = await lookup.endpointOf(key, endpointId(request));
    if (endpoint === undefined || endpoint.accountId !== key.accountId) throw noEndpoint(endpointId(request));
    const calls = new ControlCalls({
      cells,
      key,
      text: keyText(request.headers.authorization),
      cellOfAccount: (account) => lookup.cellOfAccount(account),
      keyElsewhere: ({ hash, cell, accountId }) =>
        hash.length === 0 ? Promise.resolve(undefined) : lookup.keyElsewhere(hash.toString('hex'), cell, accountId),
      timeoutMs: config.readTimeoutMs,
    });
    return {
      key,
      read: (query, limit, waitMs = 0) => calls.own((control) => control.getLogs, logRequest(endpoint.id, query, limit, waitMs)),
    };
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const query = request.query as LogsQuery;
    const { read, key } = await reader(request);
    const requested = queryOf(query);
    const events = (request.headers.accept ?? '').includes('text/event-stream');
    const caller = { key: nameOfKey(key, request.headers.authorization), account: key.accountId };
    await services.turns.ready(caller);
    const page = await read(requested, query.limit ?? 0);
    if (query.follow !== 'true') {
      const cursor = cursorOf(page, requested.oldestFirst === true);
      if (cursor !== null) reply.header(LOG_CURSOR_HEADER, cursor);
      reply.headers(missingHeaders(page));
      const write = (): Promise<string> => Promise.resolve(page.lines.map((line) => textOf(logRow(line), events)).join(''));
      const text = await services.turns.run(caller, write, PAGE_COST);
      reply.header('content-type', typeOf(events)).send(text);
      return;
    }
    if (requested.untilMs !== undefined) throw new CapstanError('INVALID_ARGUMENT', 'until: not allowed with follow', { field: 'until' });
    const name = key.hash.toString('hex');
    const open = followers.get(name) ?? 0;
    if (open >= MAX_FOLLOWERS)
      throw new CapstanError('RATE_LIMITED', `a key may have at most ${MAX_FOLLOWERS} open log streams`, { retryAfterMs: FOLLOW_MS });
    followers.set(name, open + 1);
    try {
      await follow(reply, { read, requested, page, events });
    } finally {
      const left = (followers.get(name) ?? 1) - 1;
      if (left === 0) followers.delete(name);
      else followers.set(name, left);
    }
  }

  interface Following {
    readonly read: ReadPage;
    readonly requested: LogQuery;
    /** The first page. */
    readonly page: GetLogsResponse;
    readonly events: boolean;
  }

  async function follow(reply: FastifyReply, { read, requested, page, events }: Following): Promise<void> {
    const gone = new AbortController();
    onResponseClosed(reply, () => gone.abort());
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, { 'content-type': typeOf(events), 'cache-control': 'no-store', 'x-accel-buffering': 'no', ...missingHeaders(page) });
    raw.flushHeaders();
    let cursor = cursorOf(page, true) ?? requested.cursor ?? undefined;
    if (requested.oldestFirst !== true && page.lines.length > 0) cursor = cursorOf({ ...page, next: undefined }, true) ?? undefined;
    let { lines } = page;
    const startedMs = Date.now();
    const waitMs = logWaitMs(Number.POSITIVE_INFINITY, config.readTimeoutMs);
    let sentAt = performance.now();
    let pauseMs = 0;
    while (!gone.signal.aborted && !services.draining.aborted) {
      for (const line of lines) raw.write(textOf(logRow(line), events));
      if (lines.length > 0) sentAt = performance.now();
      else if (performance.now() - sentAt >= KEEP_ALIVE_MS) {
        raw.write(events ? ': waiting for lines\n\n' : '\n');
        sentAt = performance.now();
      }
      // A slow reader holds one page.
      if (raw.writableNeedDrain) await Promise.race([new Promise((resolve) => raw.once('drain', resolve)), closed(gone.signal)]);
      await pause(pauseMs, undefined, { signal: gone.signal }).catch(() => undefined);
      if (gone.signal.aborted) break;
      const requestedAt = performance.now();
      try {
        const since = cursor === undefined ? { sinceMs: requested.sinceMs ?? startedMs } : {};
        const reading = read({ ...requested, ...since, cursor, oldestFirst: true }, MAX_LOG_LINES, waitMs);
        const next = await unlessAborted(reading, gone.signal, services.draining);
        if (next === undefined) break;
        lines = next.lines;
        pauseMs = pauseAfter(next, performance.now() - requestedAt);
        cursor = cursorOf(next, true) ?? cursor;
      } catch (thrown) {
        const error = toCapstanError(thrown);
        // The scheduler is away for a moment; anything else ends the stream.
        if (error.code !== 'UNAVAILABLE' && error.code !== 'DEADLINE_EXCEEDED') break;
        lines = [];
        pauseMs = FOLLOW_MS;
      }
    }
    raw.end();
  }

  app.route({
    method: 'GET',
    url: '/v2/:endpointId/logs',
    schema: described(
      {
        summary: 'Logs of an endpoint',
        description: 'Searches what its workers printed, on all nodes. With Accept: text/event-stream the lines are server-sent events.',
      },
      logsAnswer,
      { params: endpointParams, querystring: logsQuery },
    ),
    handler(request, reply) {
      answer(request, reply).catch((thrown: unknown) => {
        if (reply.raw.headersSent) reply.raw.end();
        else sendFailure(reply, thrown);
      });
    },
  });
}

function queryOf(query: LogsQuery): LogQuery {
  const { since, until, order, limit: _limit, follow: _follow, ...others } = query;
  return {
    ...others,
    oldestFirst: order === 'oldest',
    ...(since === undefined ? {} : { sinceMs: timeOf(since) }),
    ...(until === undefined ? {} : { untilMs: timeOf(until) }),
  };
}

/** ms since the Unix epoch; NaN for any other text. */
function timeOf(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
}

/** Time until a follower asks again, ms. A scheduler that waits for lines is asked at once; one that does not, once a second. */
function pauseAfter({ lines, incomplete }: GetLogsResponse, tookMs: number): number {
  if (lines.length === MAX_LOG_LINES) return 0;
  return lines.length > 0 || incomplete ? PAUSE_MS : Math.max(0, FOLLOW_MS - tookMs);
}

function missingHeaders({ missingNodes, unfilteredNodes }: GetLogsResponse): Record<string, string> {
  const named = (header: string, nodes: readonly string[]): Record<string, string> =>
    nodes.length === 0 ? {} : { [header]: nodes.slice(0, MAX_NAMED).join(', ') };
  return { ...named(MISSING_NODES_HEADER, missingNodes), ...named(UNFILTERED_NODES_HEADER, unfilteredNodes) };
}

function typeOf(events: boolean): string {
  return events ? 'text/event-stream; charset=utf-8' : 'application/x-ndjson; charset=utf-8';
}

function textOf(row: object, events: boolean): string {
  const text = stringifyExact(row);
  return events ? `data: ${text}\n\n` : `${text}\n`;
}

function closed(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
