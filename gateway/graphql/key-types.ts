/** Types of the schema about API keys, join tokens, secrets and the audit log. */

export const KEY_TYPES = `
type Secret {
  name: String!
  "Null: for every environment."
  environment: String
  createdAt: Time!
  changedAt: Time!
  "Endpoints whose workers start with its value, as <environment>/<name>."
  usedBy: [String!]!
}
input AuditFilter {
  "Id of the key that made the change, or its name then."
  key: String
  "The field of Mutation, or signIn."
  action: String
  "Whole parts of an object between slashes, such as default/chat or chat. A deployment is also of the endpoints that it changed."
  object: String
  "Time of the change, ms since the Unix epoch, inclusive."
  sinceMs: Float
  "The same, exclusive."
  untilMs: Float
}
type AuditPage {
  entries: [AuditEntry!]!
  "For before of the next page; null on the last one."
  next: ID
}
type AuditEntry {
  id: ID!
  at: Time!
  "Id of the key that made the change, and its name then."
  key: String!
  keyName: String!
  "The caller's; null if it is not known."
  address: String
  "The field of Mutation, or signIn."
  action: String!
  object: String!
  "What was different. Values of variables and secrets are in neither."
  before: JSON
  after: JSON
}
type JoinToken {
  id: ID!
  "The cell that nodes join with it."
  cell: String!
  name: String!
  createdAt: Time
  "Null: never."
  expiresAt: Time
  "Nodes that may join with it; null: any number."
  maxUses: Int
  uses: Int!
}
type CreatedJoinToken {
  "The token itself; only here."
  plaintext: String!
  text: String! @deprecated(reason: "Use plaintext.")
  token: JoinToken!
}
type ApiKey {
  id: ID!
  name: String!
  "The first characters of its plaintext."
  prefix: String!
  scope: KeyScope!
  endpoints: [ID!]!
  environment: String
  createdAt: Time
  expiresAt: Time
  "Accurate to one hour."
  lastUsedAt: Time
}
type CreatedApiKey {
  "The key itself; only here."
  plaintext: String!
  text: String! @deprecated(reason: "Use plaintext.")
  key: ApiKey!
}`;
