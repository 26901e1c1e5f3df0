import { history } from './0007_history.ts';
import type { Migration } from './migration.ts';
import { queue } from './0001_queue.ts';
import { terms } from './0002_terms.ts';
import { schedulers } from './0003_schedulers.ts';
import { cells } from './0004_cells.ts';
import { plans } from './0005_plans.ts';
import { tracesAndTags } from './0008_traces_and_tags.ts';
import { checkedPayloads } from './0012_checked_payloads.ts';
import { openReaders } from './0011_open_readers.ts';
import { timelines } from './0010_timelines.ts';
import { uncheckedJobs } from './0009_unchecked_jobs.ts';
import { deviceHistory } from './0013_device_history.ts';
import { audit } from './0015_audit.ts';
import { inlineUsage } from './0014_inline_usage.ts';
import { submitters } from './0016_submitters.ts';
import { finerTerms } from './0006_finer_terms.ts';

/** In order of their numbers. */
export const migrations: readonly Migration[] = [
  queue,
  terms,
  schedulers,
  cells,
  plans,
  finerTerms,
  history,
  tracesAndTags,
  uncheckedJobs,
  timelines,
  openReaders,
  checkedPayloads,
  deviceHistory,
  inlineUsage,
  audit,
  submitters,
];
