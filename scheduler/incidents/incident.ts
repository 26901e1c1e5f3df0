/**
 * What needs a person: one incident a cause. What a cause leads to (jobs that wait because a host is gone) is folded below it.
 * Everything is derived from the present state, so that an incident ends with its cause.
 */
import { endpointTitle, type Waiting } from './titles.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { NodeRecord } from '../core/state/fleet.ts';

/** The order of kinds within a severity: a host, its disk or its driver before what follows from them. */
export const KINDS = [
  'DISK_LOW',
  'NODE_DISCONNECTED',
  'DEVICE_UNHEALTHY',
  'GATEWAY_UNREACHABLE',
  'GATEWAY_UNKNOWN',
  'CRASH_LOOP',
  'RELEASE_CRASHES',
  'NO_CAPACITY',
  'FAILURE_RATE',
  'QUEUE_DELAY',
  'PAUSED',
  'WEBHOOKS_FAILING',
  'GPU_IDLE',
  'QUOTA_NEARLY_USED',
  'CERTIFICATE_EXPIRES',
  'KEY_EXPIRES',
] as const;
export type IncidentKind = (typeof KINDS)[number];

/** CRITICAL: something fails now. WARNING: it soon will, or on purpose. */
export const SEVERITIES = ['CRITICAL', 'WARNING'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Page and section of the docs, by kind. */
export const RUNBOOKS: Readonly<Record<IncidentKind, string>> = {
  DISK_LOW: 'runbook.md#the-disk-fills',
  NODE_DISCONNECTED: 'runbook.md#a-host-is-disconnected',
  DEVICE_UNHEALTHY: 'runbook.md#a-gpu-is-unhealthy',
  GATEWAY_UNREACHABLE: 'runbook.md#a-host-does-not-reach-a-gateway',
  GATEWAY_UNKNOWN: 'runbook.md#a-host-knows-no-gateway',
  CRASH_LOOP: 'runbook.md#workers-fail-to-start',
  RELEASE_CRASHES: 'runbook.md#workers-fail-to-start',
  NO_CAPACITY: 'runbook.md#jobs-wait-and-none-runs',
  FAILURE_RATE: 'runbook.md#jobs-or-requests-fail',
  QUEUE_DELAY: 'runbook.md#jobs-wait-longer-than-their-target',
  PAUSED: 'runbook.md#an-endpoint-is-paused-while-jobs-wait',
  WEBHOOKS_FAILING: 'runbook.md#webhooks-are-given-up',
  GPU_IDLE: 'runbook.md#a-gpu-is-allocated-and-idle',
  QUOTA_NEARLY_USED: 'runbook.md#a-quota-is-exceeded',
  CERTIFICATE_EXPIRES: 'runbook.md#a-certificate-ends-soon',
  KEY_EXPIRES: 'runbook.md#a-key-expires-soon',
};

/** What a person can do at once: a command of the tool with its values filled in. */
export interface Action {
  readonly label: string;
  readonly command: string;
}

export interface Incident {
  readonly kind: IncidentKind;
  readonly severity: Severity;
  /** What it is about, as people call it. */
  readonly subject: string;
  /** Begins with the subject. */
  readonly message: string;
  readonly endpoint?: EndpointRecord;
  readonly node?: NodeRecord;
  /** Empty if it concerns none. */
  readonly account: string;
  /** Wall time, ms; undefined if unknown. */
  readonly sinceMs: number | undefined;
  readonly actions: readonly Action[];
  readonly waiting: Waiting;
  /** Keys of incidents that may have led to this one, the likeliest first. */
  readonly causes: readonly string[];
  readonly effects: readonly Incident[];
}

export const NOTHING_WAITS: Waiting = { jobs: 0, requests: 0 };

/** The same for the same cause, for as long as it lasts; unique among the incidents of a cell. */
export function keyOf({
  kind,
  node,
  endpoint,
  account,
  subject,
}: Pick<Incident, 'kind' | 'node' | 'endpoint' | 'account' | 'subject'>): string {
  return `${kind} ${node?.config.id ?? endpoint?.config.id ?? `${account} ${subject}`}`;
}

/** The key of the incident of a node. */
export function nodeKey(kind: IncidentKind, node: string): string {
  return `${kind} ${node}`;
}

type Details = Pick<Incident, 'kind' | 'severity' | 'sinceMs'> & Partial<Pick<Incident, 'actions' | 'waiting' | 'causes' | 'account'>>;

/** An incident of an endpoint; `text` goes on after its name. */
export function ofEndpoint(endpoint: EndpointRecord, text: string, details: Details): Incident {
  const subject = endpointTitle(endpoint);
  return { ...defaults, ...details, subject, message: `${subject}${text}`, endpoint, account: endpoint.config.account };
}

/** An incident of a node; `text` goes on after its name. */
export function ofNode(node: NodeRecord, text: string, details: Details): Incident {
  const subject = node.config.name;
  return { ...defaults, ...details, subject, message: `${subject}${text}`, node };
}

/** An incident of something else; `text` goes on after the subject. */
export function ofSubject(subject: string, text: string, details: Details): Incident {
  return { ...defaults, ...details, subject, message: `${subject}${text}` };
}

const defaults = { account: '', actions: [], waiting: NOTHING_WAITS, causes: [], effects: [] } as const;
