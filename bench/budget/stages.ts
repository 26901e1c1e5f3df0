/**
 * Attributes a sampled profile to the stages of a request. A function belongs to the first rule that names its file,
 * otherwise to the stage of its caller: what a library does counts for whoever calls it. Pure.
 */

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
}

/** A profile of the processor, as the inspector returns it; `hitCount`: samples in the function itself. */
export interface ProfileTree {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: CallFrame;
    readonly hitCount?: number;
    readonly children?: readonly number[];
  }[];
}

/** A sampled profile of allocations; `selfSize`: bytes that the function itself allocated, those freed since included. */
export interface HeapNode {
  readonly callFrame: CallFrame;
  readonly selfSize: number;
  readonly children: readonly HeapNode[];
}

/** In the order of a request: through the gateway, then through the scheduler, then what no part calls by name. */
export const STAGES = [
  'socket',
  'parse',
  'route',
  'auth',
  'limits',
  'validation',
  'body scan',
  'id',
  'trace',
  'encode',
  'channel',
  'core',
  'commit',
  'store',
  'answer',
  'metrics',
  'history',
  'log',
  'agents',
  'gc',
  'native',
  'other',
] as const;

export type Stage = (typeof STAGES)[number];

interface Rule {
  readonly stage: Stage;
  readonly files: RegExp;
  /** Applies only where no caller has a stage: a stream of the runtime serves HTTP and gRPC alike. */
  readonly weak?: boolean;
}

const RULES: readonly Rule[] = [
  // Both parts.
  { stage: 'metrics', files: /\/(gateway|scheduler)\/metrics\/|\/gateway\/http\/measure\.ts$|\/prom-client\// },
  { stage: 'log', files: /\/(pino|thread-stream|sonic-boom)\/|\/gateway\/log\.ts$/ },
  { stage: 'trace', files: /\/lib\/(telemetry\/|trace-context)|\/request-spans\.ts$|\/scheduler\/telemetry\// },
  { stage: 'encode', files: /\/proto\/gen\/|\/@bufbuild\/|\/lib\/payload\.ts$/ },
  // The gateway.
  { stage: 'auth', files: /\/gateway\/(auth|directory|lookup)\/|\/gateway\/http\/guard\.ts$|\/scheduler\/services\/auth\.ts$/ },
  { stage: 'limits', files: /\/lib\/(shared-budget|upload-monitor|receive-body)\.ts$|\/gateway\/(limits\/|http\/request-body\.ts$)/ },
  { stage: 'limits', files: /\/scheduler\/core\/(jobs\/(admission|limits)|state\/rate-limits)\.ts$/ },
  { stage: 'body scan', files: /\/gateway\/json\/|\/lib\/json-scan\.ts$/ },
  { stage: 'validation', files: /\/zod\/|\/fastify\/lib\/validation\.js$|\/gateway\/http\/(schemas|rules)\.ts$/ },
  { stage: 'id', files: /\/gateway\/jobs\/ids\.ts$|\/uuid\// },
  { stage: 'channel', files: /\/gateway\/(jobs|cells|grpc)\/|\/lib\/(owner|batches|stream-guard)|\/@grpc\/|node:internal\/http2\// },
  { stage: 'channel', files: /\/scheduler\/services\/job-service\.ts$/ },
  { stage: 'answer', files: /\/gateway\/http\/(answer|problem)\.ts$|\/fastify\/lib\/reply\.js$|node:_http_outgoing$/ },
  { stage: 'route', files: /\/gateway\/http\/|\/gateway\/lb\/|\/fastify\/|\/find-my-way\// },
  { stage: 'parse', files: /node:_http_(server|common|incoming)$/ },
  // The scheduler.
  { stage: 'history', files: /\/scheduler\/(history|incidents|alerts)\// },
  { stage: 'core', files: /\/scheduler\/core\// },
  { stage: 'commit', files: /\/scheduler\/engine\/|\/scheduler\/blobs\// },
  { stage: 'store', files: /\/scheduler\/store\// },
  { stage: 'agents', files: /\/scheduler\/(services|advertise|webhooks)/ },
  { stage: 'socket', files: /node:(net|internal\/(streams\/|stream_base_commons))/, weak: true },
];

/** The profiler's own work is none of the part's. */
const PROFILER = /^node:inspector$/;

/** The share of each stage, 0 to 1, of the time in which the thread worked. */
export function sharesOf({ nodes }: ProfileTree): ReadonlyMap<Stage, number> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const hits = new Map<Stage, number>();
  const [root] = nodes;
  if (root === undefined) return hits;
  const open: { readonly id: number; readonly stage: Stage | undefined }[] = [{ id: root.id, stage: undefined }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const node = byId.get(next.id);
    if (node === undefined || PROFILER.test(node.callFrame.url) || node.callFrame.functionName === '(idle)') continue;
    const stage = stageOf(node.callFrame, next.stage);
    add(hits, stage ?? 'other', node.hitCount ?? 0);
    for (const id of node.children ?? []) open.push({ id, stage });
  }
  const all = [...hits.values()].reduce((sum, count) => sum + count, 0);
  return new Map([...hits].map(([stage, count]) => [stage, all === 0 ? 0 : count / all]));
}

/** The bytes that each stage allocated. */
export function bytesOf(head: HeapNode): ReadonlyMap<Stage, number> {
  const bytes = new Map<Stage, number>();
  const open: { readonly node: HeapNode; readonly stage: Stage | undefined }[] = [{ node: head, stage: undefined }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node } = next;
    if (PROFILER.test(node.callFrame.url)) continue;
    const stage = stageOf(node.callFrame, next.stage);
    add(bytes, stage ?? 'other', node.selfSize);
    for (const child of node.children) open.push({ node: child, stage });
  }
  return bytes;
}

/** Returns the stage of a function that is called within `caller`; undefined when neither has one. */
export function stageOf({ functionName, url }: CallFrame, caller: Stage | undefined): Stage | undefined {
  if (url === '') {
    if (functionName === '(garbage collector)') return 'gc';
    if (functionName === '(program)') return 'native';
    return caller;
  }
  const rule = RULES.find(({ files, weak }) => files.test(url) && !(weak === true && caller !== undefined));
  return rule?.stage ?? caller;
}

function add(sums: Map<Stage, number>, stage: Stage, amount: number): void {
  if (amount > 0) sums.set(stage, (sums.get(stage) ?? 0) + amount);
}
