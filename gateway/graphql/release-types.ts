/** Types of the schema about builds, releases and deployments. */

export const RELEASE_TYPES = `
type BuildDifference {
  "The first 500 by path."
  files: [FileChange!]!
  filesOmitted: Int!
  "The first 500 by name."
  packages: [PackageChange!]!
  packagesOmitted: Int!
}
"""A file of the project that is not the same in both builds."""
type FileChange {
  path: String!
  "Bytes; null: it is not in this build."
  sizeBefore: Float
  sizeAfter: Float
}
type PackageChange {
  name: String!
  "Versions; null: it is not in this build. Empty where the package names none."
  before: String
  after: String
}
type DeployResult { environment: String! endpoints: [Endpoint!]! }

type Build {
  digest: String!
  "Bytes."
  size: Float!
  environment: String!
  deployedAt: Time!
  endpoints: [String!]!
  "Endpoints that use it now."
  current: [String!]!
  "<endpoint>.<function>"
  functions: [String!]!
  "What rollback to this build restores; null unless the builds of one endpoint are asked for."
  settings: ReleasedSettings
  "The newest deployment with it."
  release: Release!
}
"""What a deployment says of itself. Null where it was made before this was recorded."""
type Release {
  "1, 2, 3, … in its environment."
  number: Int!
  cause: Cause!
  "Id of the key that deployed or rolled back, and its name then."
  key: ID
  keyName: String
  "The commit of the project; also null outside of a git checkout."
  source: SourceRevision
}
type SourceRevision {
  commit: String!
  "The first line of its message."
  message: String!
  "Files of the project differed from the commit."
  isDirty: Boolean!
}
input SourceRevisionInput { commit: String! message: String! isDirty: Boolean! }
"""An endpoint's settings as a deployment left them."""
type ReleasedSettings {
  settings: Settings!
  routes: [Route!]!
  "Names of its environment values, sorted."
  envNames: [String!]!
  "Names of those whose values differ from the endpoint's present ones."
  envChanged: [String!]!
  "Names of settings that the deployment kept as it found them (argument keep of deploy)."
  keptSettings: [String!]!
  "The same of environment values."
  keptEnv: [String!]!
}
"""What an existing endpoint keeps of its present settings. Only settings that updateEndpoint changes."""
input KeptSettings {
  "Name of an endpoint of the deployment."
  endpoint: String!
  "Names of settings, without env."
  settings: [String!]!
  "Names of environment values; a name without a present value stays without."
  env: [String!]!
}
type Deployment {
  number: Int!
  environment: String!
  at: Time!
  cause: Cause!
  "Id of the key that deployed or rolled back, and its name then; null where it was not recorded."
  key: ID
  keyName: String
  endpoints: [DeployedEndpoint!]!
}
type DeployedEndpoint { id: ID! name: String! build: String! source: SourceRevision }`;
