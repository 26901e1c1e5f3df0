/** Types of the schema about jobs and what they print. */

export const JOB_TYPES = `
enum BulkAction {
  "FAILED and TIMED_OUT jobs return to the tail of the queue."
  RETRY
  "Queued and running jobs end as CANCELLED."
  CANCEL
  "Queued jobs end as CANCELLED; running ones continue."
  PURGE
}
enum BulkState { RUNNING DONE STOPPED FAILED }
type JobCount {
  count: Float!
  "There are more jobs than one call examines; the count is a lower bound."
  incomplete: Boolean!
}
"""An operation on many jobs."""
type BulkOperation {
  id: ID!
  endpoint: ID!
  action: BulkAction!
  state: BulkState!
  "Jobs that the operation has examined."
  examined: Float!
  lookedAt: Float! @deprecated(reason: "Use examined.")
  changed: Float!
  "Jobs that had changed before the operation reached them."
  skipped: Float!
  startedAt: Time
  endedAt: Time
  "Why it failed."
  error: String
}enum JobStatus { IN_QUEUE IN_PROGRESS COMPLETED FAILED CANCELLED TIMED_OUT }
input JobFilter {
  "Empty: all."
  status: [JobStatus!]
  "Time of the submission or the last retry, ms since the Unix epoch, inclusive."
  sinceMs: Float
  "The same, exclusive."
  untilMs: Float
  "Part of the id, the error, or an input of up to 64 KiB; case does not matter."
  text: String
  "A whole tag of the job."
  tag: String
  "Id of the API key that submitted the job."
  submittedBy: ID
}
type JobSummary {
  "Every state, also without jobs."
  states: [JobStateCount!]!
  "The 20 largest groups of errors, the largest first."
  errors: [JobErrorGroup!]!
}
type JobStateCount {
  status: JobStatus!
  count: Float!
  "Only the newest 5,000 jobs in a state are examined, for at most 5 s in all: the count is a lower bound."
  incomplete: Boolean!
}
"""Failed and timed-out jobs whose errors begin alike: up to the first number, quotation or path."""
type JobErrorGroup {
  "What the errors have in common, as text of a JobFilter."
  text: String!
  "The same, as people read it."
  message: String!
  "The errors go on, and differ there."
  isCut: Boolean!
  count: Float!
}
type JobPage {
  jobs: [Job!]!
  "Continues the search; null at its end."
  cursor: String
  "The search examined 2,000 jobs before the page was full; continue at cursor."
  incomplete: Boolean!
}
"""An attempt that ended without a result, after which its job waited again."""
type PastAttempt {
  "Time of the submission or the retry that it belongs to."
  submittedAt: Time!
  "Its number since then, from 1. An attempt that did not start does not count: the next one has the same number."
  attempt: Int!
  worker: ID
  node: ID
  "When the job was assigned to the worker; null if it is not known."
  leasedAt: Time
  "Null if it did not start."
  startedAt: Time
  endedAt: Time!
  "Of an attempt that was retried: FAILED or TIMED_OUT. Otherwise WORKER_LOST, NODE_LOST, REFUSED, STOPPED or UNDELIVERED."
  reason: String!
  "The first 200 characters."
  error: String
  "Attempts in a row that did not start and ended for this reason; the entry shows the last one, and leasedAt of the first one."
  count: Int!
}
"""A time in which the queue of an endpoint waited for one reason."""
type QueueReason {
  at: Time!
  "Null if it still waits for this reason."
  until: Time
  reason: String!
  "When the reason began."
  detail: String
}
type Job {
  id: ID!
  endpoint: ID!
  status: JobStatus!
  "Submitted by /runsync; its result is kept for a shorter time."
  isSync: Boolean!
  lowPriority: Boolean!
  "Of the submission or the last retry."
  submittedAt: Time!
  startedAt: Time
  endedAt: Time
  "When it is deleted unless that changes: the end of its ttl, or of its retention."
  deleteAt: Time!
  "From submission to the start of the attempt, ms."
  delayTime: Int
  "Duration of the attempt, ms."
  executionTime: Int
  "Started attempts since the submission or the last retry."
  attempts: Int!
  "Maximum run time of an attempt, ms."
  executionTimeout: Float!
  "Chunks that the present or last attempt has yielded, as far as it is still known; 0 in pages."
  chunks: Int!
  "ms"
  ttl: Float!
  worker: ID
  "Of the current attempt."
  node: ID
  "Why it waits; null if there is no reason."
  queueReason: String
  error: String
  "Without its query and secrets."
  webhook: String
  "Id of the trace that the submission belongs to (OpenTelemetry); null without one."
  traceId: String
  "The tags that it was submitted with."
  tags: [String!]!
  "Id of the API key that submitted it, which may be revoked by now; null for a job that a worker submitted, or a version that did not keep it."
  submittedBy: ID
  "Attempts that ended before the present one, oldest first; the last 20. Empty in pages."
  pastAttempts: [PastAttempt!]!
  "Why the queue of the endpoint waited while this job waited, oldest first; the last 100. Waits under 1 s have none. Empty in pages."
  queueReasons: [QueueReason!]!
  "JSON text; null in pages, above 64 KiB, and when it is not kept."
  input: String
  "Bytes; null in pages, and when it is not kept."
  inputBytes: Float
  "JSON text; null in pages, above 64 KiB, and before there is one."
  output: String
  "Bytes; null in pages, and before there is one."
  outputBytes: Float
}`;

export const LOG_TYPES = `type LogLine {
  at: Time!
  worker: ID!
  release: ID
  job: ID
  "Number of the job's attempt, from 1."
  attempt: Int
  "stdout, stderr or system"
  stream: String!
  "trace, debug, info, warn, error or fatal; null if the line does not state it"
  level: String
  text: String!
  "Of a line that was a JSON object with a message: its other keys, as JSON text."
  fields: String
}
type LogPage {
  lines: [LogLine!]!
  "Continues the search; null at its end. With oldestFirst it also waits for new lines."
  cursor: String
  "The search took too long for this page: continue at cursor."
  incomplete: Boolean!
  "Nodes that have lines of the endpoint and did not reply."
  missingNodes: [ID!]!
  "Nodes whose agents are of an earlier version and do not know the filter; their lines are left out."
  unfilteredNodes: [ID!]!
  "Cursor behind the last line: oldestFirst goes on from there with later lines, and waits for them with waitMs."
  end: String!
}
input LogFilter {
  worker: ID
  job: ID
  release: ID
  "stdout, stderr or system"
  stream: String
  "Minimum level: trace, debug, info, warn, error or fatal. Lines without a level count as info."
  level: String
  "Text that the line contains, case-sensitive."
  contains: String
  "RE2 expression that matches some part of the line."
  pattern: String
  "Time, ms since the Unix epoch, inclusive."
  sinceMs: Float
  "Time, ms since the Unix epoch, exclusive."
  untilMs: Float
  "The oldest matching lines instead of the newest."
  oldestFirst: Boolean = false
}`;
