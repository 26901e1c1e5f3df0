/** Column lists of SQLite's tables, in the order of the tuples of ../rows.ts. */
import { columnList, hookBodies, hookEnvelope, hookHead, jobResult, jobRow } from '../../../core/ports/columns.ts';

/** `JobTuple` of ../rows.ts. */
export const JOB_COLUMNS = columnList(jobRow, ({ name }) => name);

/** The same where another table is joined. */
export const JOINED_JOB_COLUMNS = columnList(jobRow, ({ name }) => `jobs.${name}`);

/** What `WholeJobTuple` has besides. */
export const JOB_RESULT_COLUMNS = columnList(jobResult, ({ name }) => name);

/** `HookTuple` of ../rows.ts. */
export const HOOK_COLUMNS = columnList(hookHead, ({ name }) => name);

/** What `WholeHookTuple` has besides. */
export const HOOK_PAYLOAD_COLUMNS = columnList([hookEnvelope, ...hookBodies], ({ name }) => name);
