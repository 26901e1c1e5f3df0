/** A scheduler with a ready worker, and jobs as gateways and agents see them. */
import type { ExecutionContext } from 'ava';
import { JobKind, WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, type Dispatch, WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, type TestNode, type TestSession } from '../support/scheduler-client.ts';

export async function open(t: ExecutionContext, settings: Record<string, unknown> = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open(settings);
  t.teardown(() => scheduler.close());
  return scheduler;
}

export function submit(jobId: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, ...more },
  };
}

export function jobOf(t: ExecutionContext, reply: JobReply): Job {
  if (reply.result?.$case === 'job') return reply.result.value;
  t.fail(`not a job: ${JSON.stringify(reply.result)}`);
  throw new Error('not a job');
}

export function complete(session: TestSession, { jobId, token }: Dispatch, more: Record<string, unknown> = {}): void {
  const output = { body: { $case: 'inline', value: Buffer.from('"done"') } } as const;
  session.send(
    { $case: 'started', value: { jobId, token, agoMs: 0 } },
    {
      $case: 'ended',
      value: {
        jobId,
        token,
        outcome: AttemptOutcome.COMPLETED,
        output,
        error: '',
        executionMs: 5,
        agoMs: 0,
        started: true,
        chunks: 0,
        slotHeld: false,
        ...more,
      },
    },
  );
}

/** A scheduler with one endpoint, one node and one ready worker. */
export async function ready(
  t: ExecutionContext,
  settings: Record<string, unknown> = {},
  spec = {},
): Promise<{ scheduler: TestScheduler; endpoint: string; node: TestNode; session: TestSession; worker: string }> {
  const scheduler = await open(t, settings);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, ...spec }]);
  const endpoint = endpoints[0]?.id ?? '';
  const node = await scheduler.join('host');
  const session = node.session();
  const [status] = await session.bringUp();
  return { scheduler, endpoint, node, session, worker: status?.workerId ?? '' };
}

export function texts(reply: JobReply): string[] {
  if (reply.result?.$case !== 'stream') throw new Error(`not a stream: ${JSON.stringify(reply.result)}`);
  return reply.result.value.chunks.map(({ body }) => (body?.$case === 'inline' ? body.value.toString() : ''));
}

export function statusOf(workerId: string, endpointId: string): WorkerStatus {
  return WorkerStatus.fromPartial({ workerId, endpointId, state: WorkerState.IDLE });
}

/** Opens a session, again while the scheduler has not noticed yet that the last one is gone. */
export async function reopen(node: TestNode, hello: Parameters<TestNode['session']>[0]): Promise<TestSession> {
  for (;;) {
    const session = node.session(hello);
    const first = await Promise.race([session.take('welcome').then(() => true), session.ended.then(() => false)]);
    if (first) return session;
  }
}
