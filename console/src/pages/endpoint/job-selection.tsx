/** What is done to the jobs of a list that were selected one by one. */
import type { JSX } from 'preact';

import { useAction } from '../../api/live.ts';
import { callEndpoint } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { ConfirmButton, CopyButton, Failure } from '../../ui/parts.tsx';
import { ENDED } from '../job-query.ts';

export interface Selectable {
  readonly id: string;
  readonly status: string;
}

interface SelectionProps {
  readonly endpoint: string;
  /** Those that are selected and shown. */
  readonly jobs: readonly Selectable[];
  readonly onDone: () => void;
}

type Verb = 'cancel' | 'retry';

export function Selection({ endpoint, jobs, onDone }: SelectionProps): JSX.Element | null {
  const refusal = useWriteRefusal();
  const change = useAction(async ({ verb, of }: { verb: Verb; of: readonly Selectable[] }) => {
    for (const { id } of of) await callEndpoint(`${endpoint}/${verb}/${id}`, { method: 'POST' });
    onDone();
  });
  const open = jobs.filter(({ status }) => !ENDED.has(status));
  const failed = jobs.filter(({ status }) => status === 'FAILED' || status === 'TIMED_OUT');
  if (jobs.length === 0) return <Failure error={change.error} />;
  return (
    <>
      <div class="actions" role="group" aria-label="Selected jobs">
        <span role="status">{jobs.length} selected</span>
        <ConfirmButton
          label={`Retry ${failed.length}`}
          explain={<p>{failed.length} of the selected jobs failed or timed out: they return to the queue.</p>}
          refusal={refusal ?? (failed.length === 0 ? 'None of them failed or timed out.' : undefined)}
          isBusy={change.isPending}
          onConfirm={() => change.mutate({ verb: 'retry', of: failed })}
        />
        <ConfirmButton
          label={`Cancel ${open.length}`}
          explain={<p>{open.length} of the selected jobs are queued or running: they end as CANCELLED.</p>}
          refusal={refusal ?? (open.length === 0 ? 'All of them have ended.' : undefined)}
          isBusy={change.isPending}
          onConfirm={() => change.mutate({ verb: 'cancel', of: open })}
        />
        <CopyButton label="Copy IDs" text={jobs.map(({ id }) => id).join('\n')} />
        <button type="button" onClick={onDone}>
          Clear selection
        </button>
      </div>
      <Failure error={change.error} />
    </>
  );
}
