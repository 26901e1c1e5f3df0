/** JSON of users, as a tree that opens and closes by keyboard, too. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { parseExact } from '../../../lib/exact-json.ts';
import { save } from './download.ts';
import { bytes } from './format.ts';
import { CopyButton, Text } from './parts.tsx';
import { visible } from './plain-text.ts';

/** Entries of an array or object that are shown at first. */
const FIRST_ENTRIES = 100;
/** Levels that are open at first. */
const OPEN_LEVELS = 2;
const LONG_TEXT = 2_000;

/** Shows a document, or as text what is no JSON. `name` is that of the downloaded file. */
export function JsonDocument({ text, name }: { text: string; name: string }): JSX.Element {
  const parsed = parse(text);
  return (
    <div class="json">
      <div class="actions">
        <CopyButton text={text} />
        <button type="button" onClick={() => save(name, new Blob([text], { type: 'application/json' }))}>
          Download ({bytes(text.length)})
        </button>
      </div>
      {parsed === undefined ? (
        <pre tabIndex={0}>
          <Text of={text} />
        </pre>
      ) : (
        <Value of={parsed.value} level={0} />
      )}
    </div>
  );
}

function parse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: parseExact(text) };
  } catch {
    return undefined;
  }
}

function Value({ of, level }: { of: unknown; level: number }): JSX.Element {
  if (Array.isArray(of)) {
    const entries = of.map((value, index) => [String(index), value as unknown] as const);
    return <Entries of={entries} title={`[ ${of.length} ]`} level={level} />;
  }
  if (typeof of === 'object' && of !== null)
    return <Entries of={Object.entries(of)} title={`{ ${Object.keys(of).length} }`} level={level} />;
  if (typeof of === 'string') return <LongText of={of} />;
  return <code class="json-plain">{String(of)}</code>;
}

function LongText({ of }: { of: string }): JSX.Element {
  const [isWhole, setWhole] = useState(of.length <= LONG_TEXT);
  const shown = isWhole ? of : of.slice(0, LONG_TEXT);
  return (
    <>
      <code class="json-text">{visible(JSON.stringify(shown))}</code>
      {!isWhole && (
        <button type="button" onClick={() => setWhole(true)}>
          All {of.length} characters
        </button>
      )}
    </>
  );
}

function Entries({ of, title, level }: { of: readonly (readonly [string, unknown])[]; title: string; level: number }): JSX.Element {
  const [isOpen, setOpen] = useState(level < OPEN_LEVELS);
  const [limit, setLimit] = useState(FIRST_ENTRIES);
  if (of.length === 0) return <code class="json-plain">{title}</code>;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && (
        <ul>
          {of.slice(0, limit).map(([key, value]) => (
            <li key={key}>
              <b>
                <Text of={key} />
              </b>
              : <Value of={value} level={level + 1} />
            </li>
          ))}
          {of.length > limit && (
            <li>
              <button type="button" onClick={() => setLimit(limit * 10)}>
                {of.length - limit} more
              </button>
            </li>
          )}
        </ul>
      )}
    </details>
  );
}
