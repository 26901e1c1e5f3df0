/** An incident for tests of alerts: a job of a paused endpoint, and what is told of it. */
import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import { AttentionKind } from '../../proto/gen/capstan/v1/control.ts';
import type { Received } from './receiver.ts';
import { unary, type TestScheduler } from './scheduler-client.ts';
import { until } from './until.ts';

/** A job of a paused endpoint is an incident until the endpoint is removed, by this scheduler or its successor. */
export async function pausedJob(
  scheduler: TestScheduler,
): Promise<{ readonly endpoint: string; remove(owner?: TestScheduler): Promise<void> }> {
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMax: 0 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const value = {
    jobId: 'job-1',
    kind: JobKind.RUN,
    input: { body: { $case: 'inline', value: Buffer.from('{}') } as const },
    webhook: '',
    idempotencyKey: '',
    bodyHash: Buffer.alloc(0),
    waitMs: 0,
  };
  await scheduler.channel().ask(endpoint, { $case: 'submit', value });
  return {
    endpoint,
    remove: async (owner = scheduler) => {
      const request = { environment: 'default', endpoints: ['echo'], stopJobs: false, all: false };
      await unary((done) => owner.control.undeploy(request, owner.bearer(owner.secret('api-key')), done));
    },
  };
}

/** Waits until a scheduler that took over lists the incident. */
export async function knowsPaused(scheduler: TestScheduler): Promise<void> {
  await until('the scheduler knows the incident again', async () => {
    const { items } = await unary<{ items: { kind: AttentionKind }[] }>((done) =>
      scheduler.control.listAttention({}, scheduler.bearer(scheduler.secret('api-key')), done),
    );
    return items.some(({ kind }) => kind === AttentionKind.PAUSED);
  });
}

/** The text of a message for Slack. */
export function textOf({ body }: Received): string {
  return (JSON.parse(body.toString()) as { text: string }).text;
}
