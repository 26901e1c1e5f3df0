/**
 * GET /metrics: the metrics of the gateway and of the scheduler in one document. The scheduler has no HTTP port; its
 * metrics are fetched over the existing connection. With several gateways for one scheduler, scrape `?part=gateway` at
 * each and `?part=scheduler` at one; with several cells, `&cell=<name>` for each, and for a standby `&scheduler=<host:port>`.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CELL_NAME, CELL_NAME_RULE } from '../../../lib/cells.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import { ownsAccount } from '../../directory/permission.ts';
import { joinMetrics, METRICS_TYPES, type MetricsFormat } from '../../../lib/metrics-text.ts';
import { keyText } from '../../auth/authenticate.ts';
import { callOnce } from '../../jobs/unary.ts';
import { peerOfRequest } from '../forwarded.ts';
import { sendFailure } from '../problem.ts';
import type { Services } from '../services.ts';
import { answers } from './describe.ts';

/** As Prometheus asks for it when it stores exemplars. */
const OPEN_METRICS = /(?:^|,)\s*application\/openmetrics-text\b/;
const TIMEOUT_MS = 5000;
/** Returned instead of the scheduler's metrics while it is unreachable, so that the scrape does not fail. */
const AWAY =
  '# HELP capstan_scheduler_up 1 if the scheduler responded to this scrape.\n# TYPE capstan_scheduler_up gauge\ncapstan_scheduler_up';

/** The account of the operators' keys. */
const OPERATORS = 'default';

const partQuery = z.object({
  part: z.enum(['gateway', 'scheduler'], 'must be gateway or scheduler').optional().meta({ description: 'Only the metrics of this part.' }),
  cell: z
    .string()
    .regex(CELL_NAME, CELL_NAME_RULE)
    .optional()
    .meta({ description: 'Cell whose owner’s metrics are returned; `default` without it.' }),
  scheduler: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'Address of a scheduler, as CAPSTAN_SCHEDULER lists it: its own metrics are returned, also those of a standby.' }),
});

export function metricsRoutes(app: FastifyInstance, services: Services): void {
  const { authenticator, config, cells, metrics, metricsToken: token } = services;
  if (config.metrics === 'off') return;

  async function authorize(request: FastifyRequest): Promise<void> {
    if (config.metrics === 'open') return;
    const { authorization } = request.headers;
    // Workers reach a gateway on a loopback address, too: where it listens permits nothing.
    if (token !== undefined && sameText(keyText(authorization), token)) return;
    const key = await authenticator.authenticate(authorization, peerOfRequest(request.raw, services.proxies));
    // Metrics name the endpoints of all accounts.
    if (key.accountId !== OPERATORS) throw new CapstanError('PERMISSION_DENIED', 'metrics require a key of the account default');
    if (ownsAccount(key) || key.scope === KeyScope.READ_ONLY) return;
    throw new CapstanError('PERMISSION_DENIED', 'this key covers only its endpoints, not the metrics of the service');
  }

  async function ofScheduler(name: string | undefined, openMetrics: boolean): Promise<string> {
    const cell = name === undefined ? cells.first : cells.named(name);
    if (cell === undefined) throw new CapstanError('NOT_FOUND', `cell: ${name ?? ''} does not exist`, { field: 'cell' });
    const { control, quickMetadata } = cell;
    try {
      const { text } = await callOnce(control.getMetrics.bind(control), { openMetrics }, quickMetadata, TIMEOUT_MS);
      return `${AWAY} 1\n\n${text}`;
    } catch (thrown) {
      services.log.warn({ err: thrown }, 'scheduler metrics missing from the scrape');
      return `${AWAY} 0\n`;
    }
  }

  /** Of one scheduler, whatever it is to its cell. Only those that the gateway is configured with are asked. */
  async function ofAddress(address: string): Promise<string> {
    try {
      const text = await services.cluster.metrics(address, TIMEOUT_MS);
      if (text !== undefined) return `${AWAY} 1\n\n${text}`;
    } catch (thrown) {
      services.log.warn({ err: thrown, scheduler: address }, 'scheduler metrics missing from the scrape');
      return `${AWAY} 0\n`;
    }
    throw new CapstanError('NOT_FOUND', 'scheduler: must be an address in CAPSTAN_SCHEDULER of this gateway', { field: 'scheduler' });
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    await authorize(request);
    const { part, cell, scheduler } = request.query as z.output<typeof partQuery>;
    const wanted: MetricsFormat = scheduler === undefined && OPEN_METRICS.test(request.headers.accept ?? '') ? 'openmetrics' : 'prometheus';
    const ofOne = (): Promise<string> => (scheduler === undefined ? ofScheduler(cell, wanted === 'openmetrics') : ofAddress(scheduler));
    const theirs = part === 'gateway' ? '' : await ofOne();
    // A scheduler of an earlier version has the other format only.
    const format = theirs === '' || theirs.trimEnd().endsWith('# EOF') ? wanted : 'prometheus';
    const own = part === 'scheduler' ? '' : await metrics.text(format);
    reply.header('content-type', METRICS_TYPES[format]).send(joinMetrics([own, theirs], format));
  }

  app.route({
    method: 'GET',
    url: '/metrics',
    schema: {
      summary: 'Metrics',
      description:
        'Prometheus text format 0.0.4, or OpenMetrics 1.0 with exemplars where the header Accept asks for it. Requires the metrics token, or a key of the account default with the scope READ_ONLY, ALL or OPERATOR (CAPSTAN_METRICS).',
      tags: ['Service'],
      querystring: partQuery,
      response: answers({ 200: z.string().meta({ description: 'Prometheus text.', contentMediaType: 'text/plain' }) }, 400, 401, 404, 503),
    },
    handler(request, reply) {
      answer(request, reply).catch((thrown: unknown) => {
        sendFailure(reply, thrown);
      });
    },
  });
}

/** Compares texts in a time that does not tell where they differ. */
function sameText(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
