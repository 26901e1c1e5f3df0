/** Cells, accounts and the schedulers of a cluster, in GraphQL. */

export const OPERATOR_TYPES = `
"""A set of accounts with their endpoints, queues and nodes, owned by one scheduler at a time."""
type Cell {
  name: String!
  "Accounts in it, including deleted ones."
  accounts: Int!
  "Address of the scheduler that last owned it; null before the first."
  address: String
}
type Account {
  id: ID!
  "The cell of the account."
  cell: String!
  createdAt: Time
  quota: Quota!
  endpoints: Int!
  storage: Storage!
  "Null if the scheduler does not support rules."
  isolation: IsolationRules
}
"""Rules for the workers of an account."""
type IsolationRules {
  "Minimum level: none, user, sandbox, container or gvisor."
  least: String!
  "Runtimes that are allowed: of thread, process and container."
  runtimes: [String!]!
  "The widest network: auto (that of the node; endpoints may not request the host's), host, outbound or none."
  network: String!
}
"""Rules to set; omitted ones are unchanged."""
input IsolationRulesInput {
  least: String
  "Empty: all of them."
  runtimes: [String!]
  network: String
}
"""Limit on the sum of workersMax over the account's endpoints."""
type Quota { workers: Int! used: Int! }
"""Storage that an account uses on the scheduler's disk."""
type Storage {
  "Builds in the artifact store, unfinished uploads included."
  builds: StorageUse!
  "Inputs, outputs and chunks, while their jobs or webhooks are kept."
  bodies: StorageUse!
}
"""Bytes."""
type StorageUse { used: Float! quota: Float! }
type CreatedAccount { account: Account! keyText: String! }

"""Ages are durations, ms, so that no two clocks are compared."""
type Cluster {
  cells: [CellStatus!]!
  "In order of cell, the owner first. One that went silent is listed for an hour."
  schedulers: [Scheduler!]!
  "Null with SQLite."
  database: Database
  "Id of the scheduler that responded."
  answeredBy: ID!
}
type CellStatus {
  name: String!
  ownerId: ID!
  ownerAddress: String!
  "Fences each batch; increases with each take-over."
  term: Float!
  termAgeMs: Float!
  "A running owner commits at least once per second. Null with SQLite."
  lastBatchAgeMs: Float
  "Including restarts of the owner."
  takeOvers: Float!
  previousOwnerAddress: String
  "Standbys that were seen within the last 10 seconds."
  standbys: Int!
  "The master key that encrypts the cell's values."
  masterKeyId: String
}
type Scheduler {
  id: ID!
  cell: String!
  role: SchedulerRole!
  address: String!
  hostName: String!
  version: String!
  "Newest schema of the database that it supports; 0 with SQLite."
  schemaVersion: Int!
  "Master keys that it has, the current one first."
  masterKeyIds: [String!]!
  roleAgeMs: Float!
  lastSeenAgeMs: Float!
  "Its host's clock minus the database's."
  clockOffsetMs: Float!
}
enum SchedulerRole { OWNER STANDBY }
type Database {
  "Without a password."
  address: String!
  version: String!
  schemaVersion: Int!
  fsync: Boolean!
  "Commits wait for another host."
  synchronous: Boolean!
  "Connected synchronous standbys; null if the database role of the schedulers is not permitted to see them."
  synchronousStandbys: Int
}
`;
