/** Incidents as messages: what needs a person, bounded (scheduler/incidents). */
import { AttentionKind, AttentionSeverity, type AttentionItem, type ListAttentionResponse } from '../../proto/gen/capstan/v1/control.ts';
import { keyOf, RUNBOOKS, type Incident } from '../incidents/incident.ts';

/** Limit of items in a reply, and of effects of an item. */
const MAX_ITEMS = 500;
const MAX_EFFECTS = 20;
/** Characters of a message; errors of users' code are part of it. */
const LONGEST_MESSAGE = 1_000;

export function attention(found: readonly Incident[]): ListAttentionResponse {
  return { items: found.slice(0, MAX_ITEMS).map(itemOf), omitted: Math.max(0, found.length - MAX_ITEMS) };
}

function itemOf(incident: Incident): AttentionItem {
  const { kind, severity, subject, message, sinceMs, endpoint, node, account, actions, effects } = incident;
  return {
    key: keyOf(incident),
    kind: AttentionKind[kind],
    severity: AttentionSeverity[severity],
    subject,
    ...(sinceMs === undefined ? {} : { sinceMs: BigInt(Math.max(0, Math.trunc(sinceMs))) }),
    endpointId: endpoint?.config.id ?? '',
    nodeId: node?.config.id ?? '',
    accountId: account,
    message: message.slice(0, LONGEST_MESSAGE),
    runbook: RUNBOOKS[kind],
    actions: [...actions],
    effects: effects.slice(0, MAX_EFFECTS).map(itemOf),
  };
}
