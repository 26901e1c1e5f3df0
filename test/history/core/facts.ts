/** Groups the records of a history by call, by job and by execution, for the rules to read. */
import type {
  CallRecord,
  CrashRecord,
  EndpointPromise,
  EnterRecord,
  ExitRecord,
  HistoryRecord,
  JobView,
  Made,
  ReturnRecord,
  SettingsRecord,
  WebhookRecord,
} from './record.ts';

/** A call with what became of it. */
export interface Call {
  readonly record: CallRecord;
  /** The return; undefined while none came, or after a 5xx, which says as little as a lost answer. */
  readonly answer: ReturnRecord | undefined;
  /** The status of a 5xx, or why the answer is lost. */
  readonly failure: string | undefined;
  /** The client's own limit ended the wait. */
  readonly timedOut: boolean;
  /** When the client stopped waiting; Infinity when it never did. */
  readonly returnedAt: number;
  /** The latest moment at which the call can take effect: Infinity when its answer is lost. */
  readonly effectiveUntil: number;
}

/** What a client saw of a job at some moment between `from` and `to`. */
export interface Observation {
  readonly from: number;
  readonly to: number;
  readonly call: number;
  readonly status: string;
  /** The whole document, where the operation returns one. */
  readonly view: JobView | undefined;
}

/** One entry of a handler. */
export interface Execution {
  readonly enter: EnterRecord;
  exit: ExitRecord | undefined;
  chunks: number;
}

/** One read of a job's stream. */
export interface StreamRead {
  readonly call: Call;
  readonly chunks: readonly Made[];
  readonly status: string;
}

export interface JobFacts {
  readonly id: string;
  /** Every input under which this id was acknowledged or entered. */
  readonly inputs: Set<string>;
  endpoint: string;
  /** The submissions that were acknowledged with this id. */
  readonly acknowledgements: Call[];
  readonly observations: Observation[];
  readonly calls: Call[];
  readonly executions: Execution[];
  readonly webhooks: WebhookRecord[];
}

export interface Disruption {
  readonly number: number;
  readonly fault: string;
  readonly target: string;
  readonly from: number;
  /** Until its effects have settled. */
  to: number;
}

export interface Facts {
  readonly settings: SettingsRecord;
  readonly calls: ReadonlyMap<number, Call>;
  readonly jobs: ReadonlyMap<string, JobFacts>;
  /** Every submission of an input, in the order they left. */
  readonly submissions: ReadonlyMap<string, readonly Call[]>;
  readonly executions: ReadonlyMap<string, Execution>;
  /** Calls of purge, by endpoint. */
  readonly purges: ReadonlyMap<string, readonly Call[]>;
  readonly disruptions: readonly Disruption[];
  readonly crashes: readonly CrashRecord[];
  /** Undefined for a history that was cut off. */
  readonly endedAt: number | undefined;
}

/** Builds the facts of a history in any order of its records. Throws without a settings record. */
export function gatherFacts(records: readonly HistoryRecord[]): Facts {
  const history = records.toSorted((a, b) => a.at - b.at);
  const settings = history.find((record) => record.kind === 'settings');
  if (settings === undefined) throw new Error('the history has no settings record');
  const jobs = new Map<string, JobFacts>();
  const executions = gatherExecutions(history, jobs);
  const calls = gatherCalls(history);
  const submissions = new Map<string, Call[]>();
  const purges = new Map<string, Call[]>();
  for (const call of calls.values()) {
    const { operation, input, endpoint } = call.record;
    if (operation === 'purge') append(purges, endpoint, call);
    if (input !== undefined) append(submissions, input, call);
    addToJob(jobs, call);
  }
  for (const record of history) if (record.kind === 'webhook') addWebhook(jobs, submissions, record);
  return {
    settings,
    calls,
    jobs,
    submissions,
    executions,
    purges,
    disruptions: gatherDisruptions(history, settings.settleMs),
    crashes: history.filter((record) => record.kind === 'crash'),
    endedAt: history.findLast((record) => record.kind === 'end')?.at,
  };
}

/** Whether a fault, or what it leaves behind, lies between two moments. */
export function isDisturbed({ disruptions }: Facts, from: number, to: number): boolean {
  return disruptions.some((each) => each.from <= to && each.to >= from);
}

/** What the job's endpoint promises; undefined for a job that only handlers know. */
export function promiseOf({ settings }: Facts, job: JobFacts): EndpointPromise | undefined {
  return settings.endpoints[job.endpoint];
}

/** When the job was first submitted; Infinity for one that no client submitted. */
export function submittedAt({ submissions }: Facts, job: JobFacts): number {
  const calls = [...job.inputs].flatMap((input) => submissions.get(input) ?? []);
  return Math.min(Infinity, ...calls.map((call) => call.record.at));
}

/** Calls of one operation on a job that took effect, or may have: not those that were refused. */
export function possible(job: JobFacts, operation: CallRecord['operation']): Call[] {
  return job.calls.filter((call) => call.record.operation === operation && (call.answer === undefined || call.answer.status === 200));
}

function gatherExecutions(history: readonly HistoryRecord[], jobs: Map<string, JobFacts>): Map<string, Execution> {
  const executions = new Map<string, Execution>();
  for (const record of history) {
    if (record.kind !== 'enter') continue;
    const execution: Execution = { enter: record, exit: undefined, chunks: 0 };
    executions.set(record.execution, execution);
    const job = jobOf(jobs, record.job);
    job.executions.push(execution);
    job.inputs.add(record.input);
  }
  for (const record of history) {
    if (record.kind !== 'exit' && record.kind !== 'chunk') continue;
    const execution = executions.get(record.execution);
    if (execution === undefined) continue;
    if (record.kind === 'exit') execution.exit = record;
    else execution.chunks = Math.max(execution.chunks, record.index + 1);
  }
  return executions;
}

function gatherCalls(history: readonly HistoryRecord[]): Map<number, Call> {
  const ends = new Map<number, Omit<Call, 'record'>>();
  for (const record of history) {
    if (record.kind === 'lost')
      ends.set(record.call, {
        answer: undefined,
        failure: record.reason,
        timedOut: record.timedOut,
        returnedAt: record.at,
        effectiveUntil: Infinity,
      });
    else if (record.kind === 'return' && record.status >= 500)
      ends.set(record.call, {
        answer: undefined,
        failure: `${record.status} ${record.detail ?? ''}`,
        timedOut: false,
        returnedAt: record.at,
        effectiveUntil: Infinity,
      });
    else if (record.kind === 'return')
      ends.set(record.call, { answer: record, failure: undefined, timedOut: false, returnedAt: record.at, effectiveUntil: record.at });
  }
  const open = { answer: undefined, failure: undefined, timedOut: false, returnedAt: Infinity, effectiveUntil: Infinity };
  const calls = new Map<number, Call>();
  for (const record of history) if (record.kind === 'call') calls.set(record.call, { record, ...(ends.get(record.call) ?? open) });
  return calls;
}

function addToJob(jobs: Map<string, JobFacts>, call: Call): void {
  const { record, answer } = call;
  const submits = record.operation === 'run' || record.operation === 'runsync';
  const id = submits ? answer?.job?.id : record.job;
  if (id === undefined) return;
  const job = jobOf(jobs, id);
  job.endpoint = record.endpoint;
  job.calls.push(call);
  if (answer === undefined) return;
  if (submits && answer.status === 200) {
    job.acknowledgements.push(call);
    if (record.input !== undefined) job.inputs.add(record.input);
  }
  const seen = observed(record, answer);
  if (seen !== undefined) job.observations.push({ from: record.at, to: answer.at, call: record.call, ...seen });
}

/** A job that ended before a handler saw it, and whose acknowledgement was lost, is known by its webhook alone. */
function addWebhook(jobs: Map<string, JobFacts>, submissions: ReadonlyMap<string, readonly Call[]>, record: WebhookRecord): void {
  const job = jobOf(jobs, record.job.id);
  job.webhooks.push(record);
  const mayBeIts = (submissions.get(record.input) ?? []).some(({ answer }) => answer === undefined);
  if (job.acknowledgements.length === 0 && job.executions.length === 0 && mayBeIts) job.inputs.add(record.input);
}

/** What an answer says of the job; an acknowledgement of /run says IN_QUEUE whatever the job's state is. */
function observed(record: CallRecord, answer: ReturnRecord): Pick<Observation, 'status' | 'view'> | undefined {
  if (answer.status === 409 && record.operation === 'cancel') return { status: 'ENDED', view: undefined };
  if (answer.status === 409 && record.operation === 'retry') return { status: 'NOT_RETRYABLE', view: undefined };
  if (answer.status !== 200 || answer.job === undefined || record.operation === 'run') return undefined;
  const whole = record.operation === 'status' || record.operation === 'runsync';
  return { status: answer.job.status, view: whole ? answer.job : undefined };
}

function gatherDisruptions(history: readonly HistoryRecord[], settleMs: number): Disruption[] {
  const byNumber = new Map<number, Disruption>();
  for (const record of history) {
    if (record.kind === 'fault')
      byNumber.set(record.number, { number: record.number, fault: record.fault, target: record.target, from: record.at, to: Infinity });
    const healed = record.kind === 'healed' ? byNumber.get(record.number) : undefined;
    if (healed !== undefined) healed.to = record.at + settleMs;
  }
  return [...byNumber.values()];
}

function jobOf(jobs: Map<string, JobFacts>, id: string): JobFacts {
  const found = jobs.get(id);
  if (found !== undefined) return found;
  const job: JobFacts = {
    id,
    inputs: new Set(),
    endpoint: '',
    acknowledgements: [],
    observations: [],
    calls: [],
    executions: [],
    webhooks: [],
  };
  jobs.set(id, job);
  return job;
}

function append<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
