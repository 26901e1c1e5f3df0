import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { LONG_LIMIT_MS, send } from '../api/request.ts';
import { useSession } from '../api/session.ts';
import { save } from '../ui/download.ts';
import { bytes } from '../ui/format.ts';
import { JsonDocument } from '../ui/json.tsx';
import { ActionButton, Failure, Section } from '../ui/parts.tsx';

interface PayloadProps {
  /** Progress: the last update that a running job reported, in the place of its output. */
  readonly title: 'Input' | 'Output' | 'Progress';
  readonly endpoint: string;
  readonly job: string;
  /** Null above 64 KiB. */
  readonly text: string | null;
  readonly size: number | null;
  /** It must be there. */
  readonly isDue: boolean;
}

/** A document of a job: shown, or where it is large downloaded. */
export function Payload({ title, endpoint, job, text, size, isDue }: PayloadProps): JSX.Element {
  const { hidePayloads } = useSession();
  const [isShown, setShown] = useState(!hidePayloads);
  const part = title === 'Input' ? 'input' : 'output';
  const name = `${job}-${part}.json`;
  if (text === null)
    return (
      <Section title={title}>
        {size === null ? (
          <p class="muted">{isDue ? 'Not known.' : 'None, or not kept.'}</p>
        ) : (
          <Large path={`v2/${encodeURIComponent(endpoint)}/jobs/${encodeURIComponent(job)}/${part}`} name={name} size={size} />
        )}
      </Section>
    );
  return (
    <Section title={title}>
      {isShown ? (
        <JsonDocument text={text} name={name} />
      ) : (
        <button type="button" onClick={() => setShown(true)}>
          Show {part} ({bytes(size ?? text.length)})
        </button>
      )}
    </Section>
  );
}

function Large({ path, name, size }: { path: string; name: string; size: number }): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const download = (): void => {
    setBusy(true);
    setError(undefined);
    send(path, { limitMs: LONG_LIMIT_MS })
      .then(async (response) => save(name, await response.blob()))
      .catch((failure: unknown) => setError(failure instanceof Error ? failure : new Error(String(failure))))
      .finally(() => setBusy(false));
  };
  return (
    <>
      <p class="muted">{bytes(size)}: too large to show.</p>
      <ActionButton isBusy={isBusy} onClick={download}>
        {isBusy ? 'Downloading…' : `Download (${bytes(size)})`}
      </ActionButton>
      <Failure error={error} />
    </>
  );
}
