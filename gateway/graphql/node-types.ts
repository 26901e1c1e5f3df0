/** Nodes, their devices and machine types, in GraphQL. */

export const NODE_TYPES = `
"""A host. Keys with the scope OPERATOR see all of it. Others see what it offers, with counts of their own workers only: the rest is 0, empty or null."""
type Node {
  id: ID!
  "The cell that it joined."
  cell: String!
  name: String!
  connected: Boolean!
  "When the scheduler last received a message of its agent; null before the first one since the scheduler's start, and for keys without the scope OPERATOR."
  lastSeenAt: Time
  "Not schedulable: see drainNode."
  draining: Boolean!
  workers: Int!
  "Jobs that its workers are processing."
  jobs: Int!
  "Null until its agent connects."
  cpus: Int
  "Bytes; null until its agent connects."
  memoryBytes: Float
  "Null until its agent connects, and for keys without the scope OPERATOR."
  memoryAvailableBytes: Float
  "Null until its agent connects, where it cannot be read, and for keys without the scope OPERATOR."
  diskAvailableBytes: Float
  "Null until its agent connects, and for keys without the scope OPERATOR."
  cpuPercent: Float
  "Reserved for its workers."
  allocated: Allocated!
  "What may be reserved; null when its agent does not report it."
  allocatable: Allocatable!
  runtimes: [String!]!
  "Packages of the base images that the host's Python also has."
  packages: [String!]!
  "Those packages with their versions."
  packageVersions: JSON!
  "Images in the host's container engine."
  images: [String!]!
  devices: [Device!]!
  "Why reading its devices fails."
  deviceProblem: String
  "How strongly it isolates workers; null when its agent does not report it."
  isolation: Isolation
  "Gateways that its agent does not reach; empty for keys without the scope OPERATOR."
  unreachableGateways: [UnreachableGateway!]!
  "The machine, as its agent reads it at its start and every 5 minutes; null until then, and for keys without the scope OPERATOR."
  hardware: Hardware
  "Version of its agent; null until the agent connects, and for keys without the scope OPERATOR."
  agentVersion: String
}
"""A gateway that the agent of a node does not reach: requests of load-balanced endpoints that arrive there get no worker of the node."""
type UnreachableGateway {
  "Where the gateway says that agents reach it."
  address: String!
  "The address that the agent dials."
  dialed: String!
  "The last error."
  reason: String!
}
type Hardware {
  manufacturer: String!
  model: String!
  "A virtual machine."
  isVirtual: Boolean!
  cpuCores: Int
  cpuSockets: Int
  "Bytes."
  swapBytes: Float!
  disks: [Disk!]!
  "Without loopback."
  networkInterfaces: [NetworkInterface!]!
}
"""A disk of a host; kind is SSD or HDD."""
type Disk { name: String! model: String! kind: String! sizeBytes: Float! }
type NetworkInterface {
  name: String!
  "wired, wireless or virtual."
  kind: String!
  addresses: [String!]!
  mtu: Int
  speedMbps: Int
  "The default route uses it."
  isDefault: Boolean!
}
"""How strongly a node isolates its workers (docs/sandboxes.md)."""
type Isolation {
  "Of thread and process workers: none, user or sandbox."
  processes: String!
  "Of workers in containers: container or gvisor; null without a container engine."
  containers: String
  "Networks that thread and process workers can have: of host, outbound and none."
  processNetworks: [String!]!
  containerNetworks: [String!]!
  "Why no stronger level is available; empty for keys without the scope OPERATOR."
  missing: [MissingIsolation!]!
}
type MissingIsolation {
  "The level, network or limit that the node lacks."
  without: String!
  reason: String!
  "The command or change that adds it; empty when there is none."
  remedy: String!
}
"""Nodes that offer the same."""
type MachineType {
  "How many there are."
  nodes: Int!
  os: String!
  arch: String!
  cpus: Int!
  cpuModel: String!
  "Bytes, rounded to GiB."
  memoryBytes: Float!
  runtimes: [String!]!
  "Of the packages that base images carry, those that the host's Python has."
  packages: [String!]!
  "Those packages with their versions."
  packageVersions: JSON!
  "Base images that the host's container engine has."
  images: [String!]!
  "Healthy devices by model."
  devices: [DeviceType!]!
  "Node that runs functions there; empty where the agent does not report it."
  nodeVersion: String!
  "Python of the host; empty without Python."
  pythonVersion: String!
}
type DeviceType { model: String! memoryBytes: Float! count: Int! }
type Allocated { cpus: Float! memoryBytes: Float! devices: Int! }
type Allocatable { cpus: Float memoryBytes: Float }
type Device {
  uuid: String!
  model: String!
  memoryBytes: Float!
  "Null where it is not known."
  memoryUsedBytes: Float
  healthy: Boolean!
  problem: String
  temperatureCelsius: Float
  utilizationPercent: Float
  "Power draw of the GPU; null where it is not known, and for MIG slices."
  powerWatts: Float
  driverVersion: String
  "The newest version of CUDA that the driver serves."
  cudaVersion: String
  computeCapability: String
  "Memory errors since the driver was loaded; null without ECC."
  eccCorrected: Float
  eccUncorrected: Float
  recoveryAction: String!
  pciBusId: String!
  "The driver's latest errors in the kernel log."
  xids: [Xid!]!
}
type Xid { code: Int! text: String! at: Time! }
`;
