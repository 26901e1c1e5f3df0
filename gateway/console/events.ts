/**
 * GET /console/api/events: what changes at the endpoints that the session sees, as server-sent events. Event `all` has every endpoint,
 * `change` those that changed; both have `{"endpoints": […], "removed": [<ids>]}`. A comment each second says that nothing changed,
 * event `stale` that the scheduler does not respond: `{"reason": <text>}`.
 */
import { randomBytes } from 'node:crypto';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import type { Key } from '../directory/directory.ts';
import { ControlCalls } from '../graphql/control-calls.ts';
import { onResponseClosed } from '../http/client-disconnect.ts';
import { sendFailure } from '../http/problem.ts';
import { peerOfRequest } from '../http/forwarded.ts';
import { ActivityFeed } from './activity-feed.ts';
import { tokenOf, type ConsoleServices } from './services.ts';

/** Streams that one session may have open: a browser shares one among its tabs. */
const MAX_OF_A_SESSION = 10;
/** Streams of this gateway. */
const MAX = 5_000;
/** Time after which a browser connects again, ms. */
const RETRY_MS = 2_000;

export function eventRoutes(api: FastifyInstance, services: ConsoleServices): void {
  const { authenticator, cells, config, log, lookup, proxies } = services;
  const feeds = new Map<string, ActivityFeed>();
  const open = new Map<string, number>();
  let total = 0;

  /** Sessions with the same permissions share a feed. */
  function feedOf({ cell, accountId, scope, endpointIds, environment }: Key): ActivityFeed {
    for (const [name, feed] of feeds) if (feed.isIdle) feeds.delete(name);
    const name = JSON.stringify([cell, accountId, scope, [...endpointIds].toSorted(), environment]);
    const feed =
      feeds.get(name) ??
      new ActivityFeed({
        name: randomBytes(8).toString('hex'),
        isClosing: () => services.draining.aborted,
        onFailure: (err) => log.error({ err }, 'the events of the console failed'),
      });
    feeds.set(name, feed);
    return feed;
  }

  async function stream(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const token = tokenOf(request, services);
    const peer = peerOfRequest(request.raw, proxies);
    const key = await authenticator.session(token, peer);
    const session = key.hash.toString('hex');
    const ofSession = open.get(session) ?? 0;
    if (ofSession >= MAX_OF_A_SESSION || total >= MAX)
      throw new CapstanError('RATE_LIMITED', `a session may have at most ${MAX_OF_A_SESSION} open event streams`, { retryAfterMs: 5_000 });
    open.set(session, ofSession + 1);
    total += 1;
    const calls = new ControlCalls({
      cells,
      key,
      text: token,
      cellOfAccount: (account) => lookup.cellOfAccount(account),
      keyElsewhere: ({ hash, cell, accountId }) => lookup.keyElsewhere(hash.toString('hex'), cell, accountId),
      timeoutMs: config.readTimeoutMs,
    });
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    raw.write(`retry: ${RETRY_MS}\n\n`);
    const last = request.headers['last-event-id'];
    const remove = feedOf(key).add(
      {
        read: async () => (await calls.own((control) => control.listActivity, {})).endpoints,
        check: () => authenticator.session(token, peer),
        send: (text) => !raw.writableNeedDrain && (raw.write(text), true),
        end: () => raw.end(),
      },
      Array.isArray(last) ? last[0] : last,
    );
    onResponseClosed(reply, () => {
      remove();
      total -= 1;
      const left = (open.get(session) ?? 1) - 1;
      if (left === 0) open.delete(session);
      else open.set(session, left);
    });
  }

  api.route({
    method: 'GET',
    url: '/events',
    handler(request, reply) {
      stream(request, reply).catch((thrown: unknown) => sendFailure(reply, thrown));
    },
  });
}
