import type { DeliveryRow, JobRow, QueuedJob, Reads, SearchedInput, WholeJob } from '../../../core/ports/store.ts';
import { Packer, Unpacker } from './packer.ts';
import { packPayloads, packPayload, packDelivery, packJob, unpackDelivery, unpackJob, unpackStored, unpackWholeStored } from './rows.ts';

/** How a query's result is sent: rows packed, the small rest cloned. */
interface Form<T> {
  pack(out: Packer, result: T): void;
  unpack(from: Unpacker): T;
}

const packJobs = (out: Packer, jobs: readonly JobRow[]): void => {
  out.count(jobs.length);
  for (const job of jobs) packJob(out, job);
};

const packWhole = (out: Packer, whole: WholeJob): void => {
  packJob(out, whole.job);
  packPayload(out, whole.output);
  packPayloads(out, whole.chunks);
  out.number(whole.firstChunk);
};

const unpackWhole = (from: Unpacker): WholeJob => ({
  job: unpackJob(from),
  output: unpackStored(from),
  chunks: from.list(() => unpackWholeStored(from)),
  firstChunk: from.number(),
});

const job: Form<WholeJob | null> = {
  pack(out, result) {
    out.byte(result === null ? 0 : 1);
    if (result !== null) packWhole(out, result);
  },
  unpack: (from) => (from.byte() === 0 ? null : unpackWhole(from)),
};

const payload: Form<ReturnType<Reads['payload']>> = {
  pack(out, result) {
    out.byte(result === null ? 0 : 1);
    if (result === null) return;
    packPayload(out, result.input);
    out.bytes(result.s3);
  },
  unpack: (from) => (from.byte() === 0 ? null : { input: unpackWholeStored(from), s3: from.bytesOrNull() }),
};

const inputs: Form<SearchedInput[]> = {
  pack(out, result) {
    out.count(result.length);
    for (const { seq, input } of result) {
      out.number(seq);
      packPayload(out, input);
    }
  },
  unpack: (from) => from.list(() => ({ seq: from.number(), input: unpackWholeStored(from) })),
};

/**
 * The inputs of a head window are copied: a view would keep the whole window's buffer as long as its last job waits.
 */
const head: Form<QueuedJob[]> = {
  pack(out, result) {
    out.count(result.length);
    for (const queued of result) {
      packJob(out, queued.job);
      out.bytes(queued.input !== null && 'inline' in queued.input ? queued.input.inline : null);
    }
  },
  unpack: (from) =>
    from.list(() => {
      const row = unpackJob(from);
      const inline = from.bytesOrNull();
      return { job: row, input: inline === null ? null : { inline: inline.slice() } };
    }),
};

const leased: Form<JobRow[]> = {
  pack: packJobs,
  unpack: (from) => from.list(() => unpackJob(from)),
};

const due: Form<{ readonly jobs: JobRow[]; readonly nextAt: number | null }> = {
  pack(out, result) {
    packJobs(out, result.jobs);
    out.number(result.nextAt);
  },
  unpack: (from) => ({ jobs: from.list(() => unpackJob(from)), nextAt: from.numberOrNull() }),
};

const page: Form<{ readonly jobs: WholeJob[]; readonly total: number }> = {
  pack(out, result) {
    out.count(result.jobs.length);
    for (const whole of result.jobs) packWhole(out, whole);
    out.number(result.total);
  },
  unpack: (from) => ({ jobs: from.list(() => unpackWhole(from)), total: from.number() }),
};

const delivery: Form<DeliveryRow | null> = {
  pack(out, result) {
    out.byte(result === null ? 0 : 1);
    if (result !== null) packDelivery(out, result);
  },
  unpack: (from) => (from.byte() === 0 ? null : unpackDelivery(from)),
};

const forms: { readonly [K in keyof Reads]?: Form<ReturnType<Reads[K]>> } = {
  job,
  payload,
  inputs,
  head,
  leased,
  due,
  page,
  newest: leased,
  delivery,
};

/** Returns the form of a query's result, or undefined for one that is cloned unchanged. */
function formOf<K extends keyof Reads>(query: K): Form<ReturnType<Reads[K]>> | undefined {
  return forms[query];
}

/** Returns a buffer, or for a query without rows the result itself. */
export function packResult<K extends keyof Reads>(
  query: K,
  result: ReturnType<Reads[K]>,
): ArrayBuffer | { readonly value: ReturnType<Reads[K]> } {
  const form = formOf(query);
  if (form === undefined) return { value: result };
  const out = new Packer();
  form.pack(out, result);
  return out.finishTrimmed();
}

export function unpackResult<K extends keyof Reads>(
  query: K,
  answer: ArrayBuffer | { readonly value: ReturnType<Reads[K]> },
): ReturnType<Reads[K]> {
  if (!(answer instanceof ArrayBuffer)) return answer.value;
  const form = formOf(query);
  if (form === undefined) throw new Error(`${query} has no encoding`);
  return form.unpack(new Unpacker(answer));
}
