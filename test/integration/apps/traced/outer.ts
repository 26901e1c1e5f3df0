import { Endpoint, endpoint, type JobContext } from '@capstan/sdk';

/** Calls another endpoint; returns the trace context that it was given, and what the other one returned. */
export const outer = endpoint({ name: 'outer', workers: [0, 1] }, async (name: string, ctx: JobContext) => ({
  traceparent: ctx.traceparent,
  inner: await new Endpoint<{ name: string }, object>('inner').runSync({ name }),
}));
