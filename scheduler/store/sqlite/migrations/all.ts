import { queue } from './0001_queue.ts';
import { deployments } from './0002_deployments.ts';
import { hooksOfAccounts } from './0003_hooks_of_accounts.ts';
import { encryptedInputs } from './0004_sealed_inputs.ts';
import { bodyUsage } from './0005_body_usage.ts';
import { operatorKeys } from './0006_operator_keys.ts';
import { history } from './0007_history.ts';
import { tracesAndTags } from './0008_traces_and_tags.ts';
import { checkedPayloads } from './0010_checked_payloads.ts';
import { deviceHistory } from './0011_device_history.ts';
import { inlineUsage } from './0012_inline_usage.ts';
import { openKinds } from './0013_open_kinds.ts';
import { oneNameAColumn } from './0014_one_name_a_column.ts';
import { audit } from './0015_audit.ts';
import { timelines } from './0009_timelines.ts';
import { submitters } from './0016_submitters.ts';
import type { Migration } from './migration.ts';

/** Every migration this version knows, in order. */
export const migrations: readonly Migration[] = [
  queue,
  deployments,
  hooksOfAccounts,
  encryptedInputs,
  bodyUsage,
  operatorKeys,
  history,
  tracesAndTags,
  timelines,
  checkedPayloads,
  deviceHistory,
  inlineUsage,
  openKinds,
  oneNameAColumn,
  audit,
  submitters,
];
