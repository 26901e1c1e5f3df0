/** What the search box finds: pages of the account's endpoints, nodes, workers, keys and jobs. Pure but for `findJob`. */
import { FIND_JOB, type ListFleetResult } from '../api/graphql/gen/operations.ts';
import { graphql } from '../api/request.ts';
import { timeOfId } from '../ui/format.ts';

export interface Target {
  readonly kind: 'endpoint' | 'node' | 'worker' | 'key' | 'job';
  readonly id: string;
  readonly name: string;
  /** Tells targets with the same name apart. */
  readonly detail: string;
  readonly path: string;
}

/** Keys that do not cover the whole account see endpoints only. */
export type Fleet = Pick<ListFleetResult, 'endpoints'> & Partial<ListFleetResult>;

const MAX_MATCHES = 12;

const path = (...parts: readonly string[]): string => `/${parts.map(encodeURIComponent).join('/')}`;

export function targetsOf({ endpoints, nodes = [], workers = [], apiKeys = [] }: Fleet): readonly Target[] {
  const endpointNames = new Map(endpoints.map(({ id, name }) => [id, name]));
  const nodeNames = new Map(nodes.map(({ id, name }) => [id, name]));
  return [
    ...endpoints.map(({ id, name, environment }) => ({
      ...({ kind: 'endpoint', id, name, detail: `${environment} · ${id}`, path: path('endpoints', id) } as const),
    })),
    ...nodes.map(({ id, name }) => ({ kind: 'node', id, name, detail: id, path: path('nodes', id) }) as const),
    ...workers.map(({ id, endpoint, node }) => ({
      ...({ kind: 'worker', id, name: id } as const),
      detail: `${endpointNames.get(endpoint) ?? endpoint} on ${nodeNames.get(node) ?? node}`,
      path: `${path('endpoints', endpoint, 'logs')}?worker=${encodeURIComponent(id)}`,
    })),
    ...apiKeys.map(({ id, name, prefix }) => ({
      ...({ kind: 'key', id, name, detail: `${prefix}…`, path: `/keys?filter=${encodeURIComponent(prefix)}` } as const),
    })),
  ];
}

/** How well a target matches, 0 the best; undefined: not. */
function rank({ id, name, detail }: Target, text: string): number | undefined {
  const [lowerName, lowerId] = [name.toLowerCase(), id.toLowerCase()];
  if (lowerName === text || lowerId === text) return 0;
  if (lowerName.startsWith(text) || lowerId.startsWith(text)) return 1;
  return lowerName.includes(text) || lowerId.includes(text) || detail.toLowerCase().includes(text) ? 2 : undefined;
}

/** Returns the targets that match `text`, the best first, and how many more there are. */
export function matching(targets: readonly Target[], text: string): { readonly shown: readonly Target[]; readonly more: number } {
  const wanted = text.trim().toLowerCase();
  const found = targets
    .flatMap((target) => ({ target, place: rank(target, wanted) }))
    .filter(({ place }) => place !== undefined)
    .toSorted((a, b) => (a.place ?? 0) - (b.place ?? 0) || a.target.name.localeCompare(b.target.name))
    .map(({ target }) => target);
  return { shown: found.slice(0, MAX_MATCHES), more: Math.max(0, found.length - MAX_MATCHES) };
}

/** Returns the id of a job in pasted text; undefined where there is none. */
export function jobIdIn(text: string): string | undefined {
  const [id] = /(?:sync-)?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(?:-[a-z]\d+)?/i.exec(text) ?? [];
  return id !== undefined && timeOfId(id) !== undefined ? id : undefined;
}

/** Finds a job of any endpoint that the key covers, by one request. */
export async function findJob({ endpoints }: Pick<Fleet, 'endpoints'>, id: string, signal: AbortSignal): Promise<Target | null> {
  const { job } = await graphql(FIND_JOB, { id }, signal);
  if (job === null) return null;
  const { name = job.endpoint } = endpoints.find((endpoint) => endpoint.id === job.endpoint) ?? {};
  return {
    ...({ kind: 'job', id, name: id, detail: `${job.status} · ${name}` } as const),
    path: path('endpoints', job.endpoint, 'jobs', id),
  };
}
