import { batchFunctionV2, batchTypesV2 } from '../sql/batch.ts';
import type { Migration } from './migration.ts';

/**
 * A job keeps the trace context of its submission: its attempts and webhooks, and those of its retries, continue the trace. And it keeps
 * the words by which its submitter finds it.
 */
export const tracesAndTags: Migration = {
  number: 8,
  name: 'traces_and_tags',
  sql: `
ALTER TABLE capstan.jobs ADD COLUMN trace text, ADD COLUMN tags text;
${batchTypesV2}
${batchFunctionV2}`,
};
