/** What needs a person now, in the schema: one incident a cause. */
export const ATTENTION_TYPES = /* GraphQL */ `
type Attention {
  "Incidents: one a cause. The most urgent first: by severity, then a host, its disk or its GPUs before what follows from them."
  items: [AttentionItem!]!
  "Items that are not listed: a cell lists at most 500, and a gateway only the kinds that it knows."
  omitted: Int!
}
type AttentionItem {
  "The same for the same cause, for as long as it lasts; unique within a cell."
  key: String!
  kind: AttentionKind!
  severity: AttentionSeverity!
  "What it is about, as people call it: a node, an endpoint, an account, a key."
  subject: String!
  cell: String!
  "Null if unknown."
  since: Time
  endpoint: ID
  "Account of the endpoint, of the quota, of the key."
  account: ID
  node: ID
  "Begins with the subject."
  message: String!
  "What to do about it: page and section in the folder docs."
  runbook: String!
  "What can be done at once."
  actions: [AttentionAction!]!
  "What follows from it, such as endpoints whose jobs wait because a node is gone; at most 20. They have no effects of their own."
  effects: [AttentionItem!]!
}
type AlertChannel {
  id: ID!
  kind: AlertChannelKind!
  "Without secrets."
  address: String!
  "It also tells of nodes, disks, certificates and the endpoints of other accounts: a key with the scope OPERATOR added it."
  wholeService: Boolean!
  createdAt: Time!
  "Problems whose begin it was told, and whose end it was not."
  open: Int!
  "Why the last message was not delivered; null if it was."
  failure: String
}
enum AlertChannelKind { WEBHOOK EMAIL }
type AttentionAction {
  label: String!
  "A command of the tool, values filled in."
  command: String!
}
enum AttentionSeverity {
  "Something fails now."
  CRITICAL
  "It soon fails, or is as it was set."
  WARNING
}
enum AttentionKind {
  "Consecutive starts of an endpoint's workers fail."
  CRASH_LOOP
  "Jobs or requests of an endpoint wait, and no node can take a worker for them."
  NO_CAPACITY
  "Deliveries of an endpoint's webhooks failed; of the key's own account, among its first 1,000 undelivered ones."
  WEBHOOKS_FAILING
  "The disk of the scheduler or of a node is nearly full, or below the node's reserve; for operators."
  DISK_LOW
  "A node is not connected; for operators."
  NODE_DISCONNECTED
  "The agent of a connected node does not reach a gateway: requests of load-balanced endpoints that arrive there get none of its workers; for operators."
  GATEWAY_UNREACHABLE
  "A GPU is unhealthy, or the GPUs of a node cannot be read; for operators, and accounts with workers there."
  DEVICE_UNHEALTHY
  "The agent of a node knows no address of a gateway: functions there cannot call other endpoints; for operators."
  GATEWAY_UNKNOWN
  "The present release of an endpoint failed to start, not yet often enough for a crash loop."
  RELEASE_CRASHES
  "An endpoint is paused (workersMax is 0) while jobs or requests wait."
  PAUSED
  "The key's account uses at least 90 % of a quota: of workers, builds or bodies."
  QUOTA_NEARLY_USED
  "A key of the key's account ends within 14 days; keys made for less than 28 days are left out."
  KEY_EXPIRES
  "At least 5 jobs, or requests of a route, ended within the last 5 minutes, and at least a fifth of them failed (requests: with a status from 500)."
  FAILURE_RATE
  "A job of normal priority or a request of an endpoint waits longer than the target (delayTarget; without it, three times the usual delay)."
  QUEUE_DELAY
  "GPUs are allocated to workers that have not used them for 30 minutes."
  GPU_IDLE
  "A certificate of the scheduler, its CA, a gateway or a host ends within 14 days; for operators."
  CERTIFICATE_EXPIRES
}
`;
