/** The fleet as the scheduler tells it. */
import { endpointDetail } from './endpoint-detail.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { Fleet } from './fleet.ts';
import { nodeRow } from './node-row.ts';
import type { SchedulerClient } from './scheduler-client.ts';
import { webhookRow, type WebhookRow } from './webhook-row.ts';
import { workerRow } from './worker-row.ts';

const PAGE = 1_000;

/** `base` is that of the HTTP API. */
export function schedulerFleet(client: SchedulerClient, base: string): Fleet {
  return {
    nodes: async () => (await client.listNodes()).map(nodeRow),
    async drainNode(id) {
      const node = await client.drainNode(id);
      return node === undefined ? null : nodeRow(node);
    },
    async resumeNode(id) {
      const node = await client.resumeNode(id);
      return node === undefined ? null : nodeRow(node);
    },
    removeNode: (id, force) => client.removeNode(id, force),
    async workers(endpoint) {
      const known = await client.listEndpoints('');
      const id = endpoint === undefined ? '' : findEndpoint(known, endpoint).id;
      const names = new Map(known.map((each) => [each.id, each.spec?.name ?? '']));
      return (await client.listWorkers(id)).map((worker) => workerRow(worker, names));
    },
    endpoint: async (environment, wanted) =>
      endpointDetail(await client.endpoint(findEndpoint(await client.listEndpoints(environment), wanted).id), base),
    async webhooks() {
      const rows: WebhookRow[] = [];
      for (let afterId = ''; ;) {
        const page = await client.listWebhooks({ afterId, limit: PAGE });
        rows.push(...page.webhooks.map(webhookRow));
        if (page.nextAfterId === '' || page.nextAfterId === afterId) return rows;
        afterId = page.nextAfterId;
      }
    },
    redeliverWebhook: (id) => client.redeliverWebhook(id),
    webhookSecret: () => client.webhookSecret(),
    async rotateWebhookSecret() {
      const { secret, previousUntilMs } = await client.rotateWebhookSecret();
      return { secret, previousUntil: previousUntilMs === undefined ? null : new Date(Number(previousUntilMs)).toISOString() };
    },
  };
}
