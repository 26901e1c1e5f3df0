/** Column lists of PostgreSQL's tables, in the order of the tuples of ../rows.ts. */
import { columnList, deliveryBodies, deliveryEnvelope, deliveryHead, jobResult, jobRow } from '../../../core/ports/columns.ts';

/** `JobTuple` of ../rows.ts, of the alias `j`. */
export const JOB_COLUMNS = columnList(jobRow, ({ name }) => `j.${name}`);

/** What `WholeJobTuple` has besides. */
export const JOB_RESULT_COLUMNS = columnList(jobResult, ({ name }) => `j.${name}`);

/** `DeliveryTuple` of ../rows.ts, of the alias `h`. */
export const DELIVERY_COLUMNS = columnList(deliveryHead, ({ name }) => `h.${name}`);

/** What `WholeDeliveryTuple` has besides. */
export const DELIVERY_PAYLOAD_COLUMNS = `h.${deliveryEnvelope.name}::text, ${columnList(deliveryBodies, ({ name }) => `h.${name}`)}`;
