/** What happened at an endpoint over time, in GraphQL. */

export const HISTORY_TYPES = `
"""
What happened at an endpoint in equal steps. Every list has one value for each step. Steps of 10 s are kept for 3 hours, multiples of a
minute for 3 days, multiples of an hour for 90 days; the last step may be incomplete.
"""
type History {
  "Length of a step, s."
  step: Int!
  "When each step begins, ms since the Unix epoch."
  at: [Float!]!
  "The last steps that go on, or are not wholly recorded: their counts are not final."
  openSteps: Int!
  submitted: [Int!]!
  completed: [Int!]!
  failed: [Int!]!
  cancelled: [Int!]!
  timedOut: [Int!]!
  "Jobs whose ttl expired before they ended."
  expired: [Int!]!
  "Attempts whose worker or node was lost."
  lost: [Int!]!
  "Queued jobs: the mean over each step."
  inQueue: [Float!]!
  "Queued jobs: the most in each step."
  longestQueue: [Float!]!
  "Jobs that workers have: the mean over each step."
  inProgress: [Float!]!
  workers: HistoryWorkers!
  "From submission to start, of the jobs that ended."
  delay: HistoryDurations!
  "Of the last attempt, of the jobs that ended."
  execution: HistoryDurations!
  starts: HistoryStarts!
}
"""
Gauges of a device in equal steps, kept for 3 days in minutes. Every list has one value for each step; null where the device did not report
it, or its node was away.
"""
type DeviceHistory {
  "Length of a step, s."
  step: Int!
  "When each step begins, ms since the Unix epoch."
  at: [Float!]!
  "Share of time in which a kernel ran, percent: the mean over each step."
  utilization: [Float]!
  "Power draw: the mean over each step."
  powerWatts: [Float]!
  "The most in each step."
  memoryUsedBytes: [Float]!
  "The highest in each step."
  temperatureCelsius: [Float]!
  "Every reason for which clocks were lowered within each step, for example sw_power_cap or hw_thermal_slowdown."
  throttleReasons: [[String!]!]!
  "Memory errors since the driver was loaded."
  eccCorrected: [Float]!
  eccUncorrected: [Float]!
  "The last error of the driver (Xid) within each step."
  xid: [Int]!
}
"""Workers by state: means over each step."""
type HistoryWorkers {
  idle: [Float!]!
  running: [Float!]!
  initializing: [Float!]!
  throttled: [Float!]!
  unhealthy: [Float!]!
}
"""Percentiles, ms, accurate to 9%; null where no job, or request, ended."""
type HistoryDurations {
  p50: [Float]!
  p95: [Float]!
  p99: [Float]!
}
"""Starts of workers: how many became ready, and the mean duration of each phase, ms; null where none did."""
type HistoryStarts {
  count: [Int!]!
  "Until a node was chosen."
  placed: [Float]!
  "Until the build was on the node."
  artifact: [Float]!
  "Until the process had started."
  started: [Float]!
  "Until the module was loaded."
  loaded: [Float]!
}
"""
Requests of a load-balanced endpoint in equal steps, by the time at which their responses ended. Steps are kept as those of History.
"""
type RouteHistory {
  "Length of a step, s."
  step: Int!
  "When each step begins, ms since the Unix epoch."
  at: [Float!]!
  "The last steps that go on, or are not wholly recorded: their counts are not final."
  openSteps: Int!
  "All routes together."
  all: RouteSeries!
  "Routes with requests within the range, the busiest first."
  routes: [NamedRouteSeries!]!
}
type RouteSeries {
  requests: [Int!]!
  "Status 400 to 499."
  refused: [Int!]!
  "Status 500 and above."
  errors: [Int!]!
  "From the head of a request to the end of its response."
  durations: HistoryDurations!
}
type NamedRouteSeries {
  "Method and path as in RouteFigures."
  method: String!
  path: String!
  requests: [Int!]!
  refused: [Int!]!
  errors: [Int!]!
  durations: HistoryDurations!
}
`;
