/** Webhooks: which addresses they may reach, and what sends them. */
import pkg from '../../package.json' with { type: 'json' };
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { AlertDelivery } from '../alerts/delivery.ts';
import type { BlobStore } from '../blobs/blob-store.ts';
import type { SchedulerConfig } from '../config.ts';
import type { State } from '../core/state.ts';
import { isLastTry } from '../core/webhooks/webhooks.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { SchedulerMetrics } from '../metrics/metrics.ts';
import { DEFAULT_ACCOUNT } from '../services/auth.ts';
import type { Store } from '../core/ports/store.ts';
import { webhookSpan } from '../telemetry/job-spans.ts';
import { AddressGuard, parseAllowList } from '../webhooks/guard.ts';
import { systemResolver, type Resolve } from '../webhooks/resolver.ts';
import type { WebhookSecrets } from '../webhooks/secrets.ts';
import { WebhookSender, type TryResult } from '../webhooks/sender.ts';
import type { WebhookUrls } from '../webhooks/urls.ts';

export interface WebhookDeps {
  readonly config: SchedulerConfig;
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly engine: Engine;
  readonly metrics: SchedulerMetrics;
  readonly secrets: WebhookSecrets;
  readonly urls: WebhookUrls;
  readonly guardOf: (account: string) => AddressGuard;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly resolve: Resolve | undefined;
  readonly tracing: Tracing;
}

export function webhookSender({ config, store, blobs, engine, metrics, secrets, urls, ...deps }: WebhookDeps): WebhookSender {
  return new WebhookSender({
    delivery: (id) => store.read('delivery', id),
    openBlob: (id) => blobs.get(id),
    secrets: (account) => secrets.signing(account),
    guardOf: deps.guardOf,
    urlOf: ({ url, id }) => urls.open(url, id),
    resolve: deps.resolve ?? systemResolver(),
    now: () => deps.clock.now().wall,
    span: (delivery) => webhookSpan(deps.tracing, delivery),
    connectMs: config.webhookConnectMs,
    totalMs: config.webhookTimeoutMs,
    userAgent: `Capstan/${pkg.version}`,
    tried: (id, result) => {
      if (engine.image !== null) countDelivery(metrics, engine.image, id, result);
      engine.handle({ kind: 'delivery-tried', id, ...result });
    },
    onFault: (error, id) => deps.log.error({ err: error, webhook: id }, 'sending a webhook failed'),
  });
}

/** What sends alerts of incidents, under the rules of webhooks. */
export function alertDelivery(config: SchedulerConfig, { guardOf, resolve }: Pick<WebhookDeps, 'guardOf' | 'resolve'>): AlertDelivery {
  const { smtpUrl: url, smtpFrom: from, webhookConnectMs: connectMs, webhookTimeoutMs: totalMs } = config;
  const mail = url === undefined || from === undefined ? null : { url, from };
  return new AlertDelivery({
    guardOf,
    resolve: resolve ?? systemResolver(),
    connectMs,
    totalMs,
    userAgent: `Capstan/${pkg.version}`,
    mail,
  });
}

/**
 * Returns the guards with the non-public addresses that webhooks may reach. The operator's account may reach more than
 * others.
 */
export function webhookGuards({ webhookAllow, webhookAllowOperator }: SchedulerConfig): (account: string) => AddressGuard {
  const all = new AddressGuard(parseAllowList(webhookAllow));
  const operator = new AddressGuard(
    parseAllowList(`${webhookAllow},${webhookAllowOperator}`, 'CAPSTAN_WEBHOOK_ALLOW or CAPSTAN_WEBHOOK_ALLOW_OPERATOR'),
  );
  return (account) => (account === DEFAULT_ACCOUNT ? operator : all);
}

function countDelivery(metrics: SchedulerMetrics, state: State, id: string, result: TryResult): void {
  if (result.result === 'delivered') metrics.delivery('delivered');
  else if (result.result === 'failed') metrics.delivery(isLastTry(state, id) ? 'exhausted' : result.refused ? 'refused' : 'failed');
}
