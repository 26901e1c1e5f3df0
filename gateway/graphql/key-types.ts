/** Types of the schema about API keys, join tokens and secrets. */

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
