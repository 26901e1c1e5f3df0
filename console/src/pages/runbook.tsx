import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { Failure } from '../ui/parts.tsx';
import { Markdown, slug } from '../ui/markdown.tsx';

/** The document is loaded when the first section of it is opened. */
async function readSection(address: string): Promise<string> {
  const { default: text } = await import('../../../docs/runbook.md?raw');
  const anchor = address.replace(/^.*#/, '');
  const section = text.split(/^## /m).find((each) => slug(each.split('\n', 1)[0] ?? '') === anchor);
  return section === undefined ? `See docs/${address}.` : section.replace(/^.*\n/, '').trim();
}

/** What to do: the section of the runbook, once it is opened. `address`: page and section in the folder docs. */
export function RunbookSection({ address }: { address: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState<string>();
  const [error, setError] = useState<Error>();
  return (
    <details
      class="runbook"
      onToggle={({ currentTarget: { open } }) => {
        setOpen(open);
        if (!open || text !== undefined) return;
        setError(undefined);
        readSection(address).then(setText, (failure: unknown) => setError(failure instanceof Error ? failure : new Error(String(failure))));
      }}
    >
      <summary>What to do</summary>
      <Failure error={error} />
      {text === undefined ? isOpen && error === undefined && <p class="muted">Loading…</p> : <Markdown text={text} />}
      <p>
        <Link href={`/docs/${address}`}>docs/{address}</Link>
      </p>
    </details>
  );
}
