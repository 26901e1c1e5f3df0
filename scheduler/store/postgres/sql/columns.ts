/** Column lists of PostgreSQL's tables, in the order of the tuples of ../rows.ts. */
import { columnList, hookBodies, hookEnvelope, hookHead, jobResult, jobRow } from '../../../core/ports/columns.ts';

/** `JobTuple` of ../rows.ts, of the alias `j`. */
export const JOB_COLUMNS = columnList(jobRow, ({ name }) => `j.${name}`);

/** What `WholeJobTuple` has besides. */
export const JOB_RESULT_COLUMNS = columnList(jobResult, ({ name }) => `j.${name}`);

/** `HookTuple` of ../rows.ts, of the alias `h`. */
export const HOOK_COLUMNS = columnList(hookHead, ({ name }) => `h.${name}`);

/** What `WholeHookTuple` has besides. */
export const HOOK_PAYLOAD_COLUMNS = `h.${hookEnvelope.name}::text, ${columnList(hookBodies, ({ name }) => `h.${name}`)}`;
