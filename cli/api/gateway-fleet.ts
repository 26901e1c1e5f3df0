/** The fleet as a gateway tells it, over GraphQL. */
import { listEndpoints } from './control.ts';
import type { EndpointDetail } from './endpoint-detail.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { Fleet } from './fleet.ts';
import type { GatewayClient } from './gateway-client.ts';
import type { NodeRow } from './node-row.ts';
import { SETTINGS_SELECTION } from './shown-settings.ts';
import type { WebhookRow } from './webhook-row.ts';
import type { WorkerRow } from './worker-row.ts';

const PAGE = 1_000;

const NODE = `id name connected draining workers jobs cpus memoryBytes allocated { cpus memoryBytes devices } allocatable { cpus memoryBytes }
  memoryAvailableBytes diskAvailableBytes cpuPercent runtimes packages: packageVersions deviceProblem
  devices { uuid name: model memoryBytes healthy problem temperatureCelsius utilizationPercent eccCorrected eccUncorrected
    recoveryAction pciBusId xids { code text at } }`;
const WORKER = `id endpointId: endpoint state reason detail jobs maxConcurrency nodeId: node decision devices releaseId: release
  runtime failures start { artifactMs startedMs loadedMs }`;
const DETAIL = `settings { ${SETTINGS_SELECTION} }
  scaling { counts workers { ${WORKER} } rejections { reason nodes examples { node detail } } decisions { at kind worker node reason }
    failedStarts lastStartError }`;

type Device = NodeRow['devices'][number];
type NodeData = Omit<NodeRow, 'devices' | 'deviceProblem'> & {
  readonly deviceProblem: string | null;
  readonly devices: readonly (Omit<Device, 'problem'> & { readonly problem: string | null })[];
};

type WorkerData = Omit<WorkerRow, 'endpoint' | 'reason' | 'detail'> & { readonly reason: string | null; readonly detail: string | null };

type Decision = EndpointDetail['decisions'][number];
interface DetailData {
  readonly settings: EndpointDetail['settings'];
  readonly scaling: {
    readonly counts: EndpointDetail['workerCounts'];
    readonly workers: readonly WorkerData[];
    readonly rejections: EndpointDetail['rejections'];
    readonly decisions: readonly (Omit<Decision, 'worker' | 'node'> & { readonly worker: string | null; readonly node: string | null })[];
    readonly failedStarts: number;
    readonly lastStartError: string | null;
  };
}

interface WebhookData {
  readonly id: string;
  readonly endpoint: string;
  readonly url: string;
  readonly state: 'PENDING' | 'FAILED';
  readonly tries: number;
  readonly dueAt: string | null;
  readonly error: string | null;
}

interface WebhookPage {
  readonly webhooks: readonly WebhookData[];
  readonly next: string | null;
}

export function gatewayFleet(client: GatewayClient): Fleet {
  const change = async (mutation: 'drainNode' | 'resumeNode', id: string): Promise<NodeRow> => {
    const query = `mutation ($id: ID!) { node: ${mutation}(id: $id) { ${NODE} } }`;
    return nodeOf((await client.query<{ node: NodeData }>(query, { id })).node);
  };
  return {
    nodes: async () => (await client.query<{ nodes: NodeData[] }>(`{ nodes { ${NODE} } }`)).nodes.map(nodeOf),
    drainNode: (id) => change('drainNode', id),
    resumeNode: (id) => change('resumeNode', id),
    async removeNode(id, force) {
      await client.query('mutation ($id: ID!, $force: Boolean) { removeNode(id: $id, force: $force) }', { id, force });
    },
    async workers(endpoint) {
      const known = await listEndpoints(client, null);
      const id = endpoint === undefined ? null : findEndpoint(known, endpoint).id;
      const names = new Map(known.map((each) => [each.id, each.name]));
      const query = `query ($id: ID) { workers(endpoint: $id) { ${WORKER} } }`;
      return (await client.query<{ workers: WorkerData[] }>(query, { id })).workers.map((worker) => workerOf(worker, names));
    },
    async endpoint(environment, wanted) {
      const row = findEndpoint(await listEndpoints(client, environment === '' ? null : environment), wanted);
      const query = `query ($id: ID!) { endpoint(id: $id) { ${DETAIL} } }`;
      const { endpoint } = await client.query<{ endpoint: DetailData | null }>(query, { id: row.id });
      if (endpoint === null) return null;
      const { counts, workers, rejections, decisions, failedStarts, lastStartError } = endpoint.scaling;
      return {
        ...row,
        settings: endpoint.settings,
        workerCounts: counts,
        workerList: workers.map((worker) => workerOf(worker, new Map([[row.id, row.name]]))),
        rejections,
        decisions: decisions.map((decision) => ({ ...decision, worker: decision.worker ?? '', node: decision.node ?? '' })),
        failedStarts,
        lastStartError: lastStartError ?? '',
      };
    },
    async webhooks() {
      const query = `query ($after: ID, $limit: Int) { webhooks(after: $after, limit: $limit) {
        webhooks { id endpoint url state tries dueAt error } next } }`;
      const rows: WebhookRow[] = [];
      for (let after: string | null = null; ;) {
        const { webhooks: page }: { webhooks: WebhookPage } = await client.query(query, { after, limit: PAGE });
        rows.push(...page.webhooks.map(webhookOf));
        // A server that names the same page again would never end.
        if (page.next === null || page.next === after) return rows;
        after = page.next;
      }
    },
    async redeliverWebhook(id) {
      await client.query('mutation ($id: ID!) { redeliverWebhook(id: $id) }', { id });
    },
    webhookSecret: async () => (await client.query<{ webhookSecret: string }>('{ webhookSecret }')).webhookSecret,
    async rotateWebhookSecret() {
      const query = 'mutation { rotated: rotateWebhookSecret { secret previousUntil } }';
      return (await client.query<{ rotated: { secret: string; previousUntil: string | null } }>(query)).rotated;
    },
  };
}

/** What is null in the schema is empty in a row. */
function nodeOf({ deviceProblem, devices, ...node }: NodeData): NodeRow {
  return {
    ...node,
    deviceProblem: deviceProblem ?? '',
    devices: devices.map((device) => ({ ...device, problem: device.problem ?? '' })),
  };
}

function workerOf(worker: WorkerData, names: ReadonlyMap<string, string>): WorkerRow {
  const { endpointId, reason, detail } = worker;
  return { ...worker, endpoint: names.get(endpointId) ?? endpointId, reason: reason ?? '', detail: detail ?? '' };
}

function webhookOf({ id, endpoint, url, state, tries, dueAt, error }: WebhookData): WebhookRow {
  const failed = state === 'FAILED';
  return {
    id,
    endpointId: endpoint,
    url,
    state: failed ? 'failed' : 'pending',
    tries,
    nextTry: failed ? null : dueAt,
    keptUntil: failed ? dueAt : null,
    error: error ?? '',
  };
}
