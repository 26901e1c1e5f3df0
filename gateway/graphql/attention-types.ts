/** What needs a person now, in the schema. */
export const ATTENTION_TYPES = /* GraphQL */ `
type Attention {
  "The most urgent kinds first, in each kind the longest-lasting first."
  items: [AttentionItem!]!
  "Items that are not listed: a cell lists at most 500, and a gateway only the kinds that it knows."
  omitted: Int!
}
type AttentionItem {
  kind: AttentionKind!
  cell: String!
  "Null if unknown."
  since: Time
  endpoint: ID
  "Account of the endpoint."
  account: ID
  node: ID
  message: String!
  "What to do about it: page and section in the folder docs."
  runbook: String!
}
enum AttentionKind {
  "Consecutive starts of an endpoint's workers fail."
  CRASH_LOOP
  "Jobs or requests of an endpoint wait, and no node can take a worker for them."
  NO_CAPACITY
  "Deliveries of an endpoint's webhooks failed; of the key's own account, among its first 1,000 undelivered ones."
  WEBHOOKS_FAILING
  "The disk of the scheduler or of a node is nearly full; for operators."
  DISK_LOW
  "A node has been disconnected for longer than the grace period; for operators."
  NODE_DISCONNECTED
  "The agent of a connected node does not reach a gateway: requests of load-balanced endpoints that arrive there get none of its workers; for operators."
  GATEWAY_UNREACHABLE
  "A GPU is unhealthy, or the GPUs of a node cannot be read; for operators, and accounts with workers there."
  DEVICE_UNHEALTHY
}
`;
