/** Column lists of SQLite's tables, in the order of the tuples of ../rows.ts. */
import { columnList, deliveryBodies, deliveryEnvelope, deliveryHead, jobResult, jobRow } from '../../../core/ports/columns.ts';

/** `JobTuple` of ../rows.ts. */
export const JOB_COLUMNS = columnList(jobRow, ({ name }) => name);

/** The same where another table is joined. */
export const JOINED_JOB_COLUMNS = columnList(jobRow, ({ name }) => `jobs.${name}`);

/** What `WholeJobTuple` has besides. */
export const JOB_RESULT_COLUMNS = columnList(jobResult, ({ name }) => name);

/** `DeliveryTuple` of ../rows.ts. */
export const DELIVERY_COLUMNS = columnList(deliveryHead, ({ name }) => name);

/** What `WholeDeliveryTuple` has besides. */
export const DELIVERY_PAYLOAD_COLUMNS = columnList([deliveryEnvelope, ...deliveryBodies], ({ name }) => name);
