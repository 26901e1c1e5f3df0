/** Elements that all pages use. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

import { ApiError } from '../api/request.ts';
import { age, time } from './format.ts';
import { visible } from './plain-text.ts';
import { setTitle } from './title.ts';

/** Shows text of users and workers: as text only, with invisible characters made visible. */
export function Text({ of }: { of: string }): JSX.Element {
  return <bdi>{visible(of)}</bdi>;
}

export function Mono({ of }: { of: string }): JSX.Element {
  return (
    <code>
      <Text of={of} />
    </code>
  );
}

/** Younger ages are shown in seconds. */
const MINUTE_MS = 60_000;

/** How long ago something was, with its time in the tooltip: `5 min ago`. It grows while the page shows it. */
export function SinceTime({ at }: { at: string }): JSX.Element {
  const [, setTick] = useState(0);
  const elapsedMs = Date.now() - Date.parse(at);
  useEffect(() => {
    const timer = setTimeout(() => setTick((tick) => tick + 1), elapsedMs < MINUTE_MS ? 1_000 : MINUTE_MS / 2);
    return () => clearTimeout(timer);
  });
  return (
    <time dateTime={at} title={time(at)}>
      {age(elapsedMs)} ago
    </time>
  );
}

const GOOD = new Set(['COMPLETED', 'IDLE', 'RUNNING', 'READY', 'connected', 'ready', 'healthy']);
const BAD = new Set(['FAILED', 'TIMED_OUT', 'UNHEALTHY', 'CRASH_LOOP', 'NO_CAPACITY', 'disconnected', 'unhealthy']);

/** Shows a state by its word; the colour only repeats it. */
export function Badge({ state }: { state: string }): JSX.Element {
  const tone = GOOD.has(state) ? 'good' : BAD.has(state) ? 'bad' : 'neutral';
  return (
    <span class={`badge ${tone}`}>
      <Text of={state} />
    </span>
  );
}

/** In the place of a state that is not known now: when it was known last, as far as the key sees that. */
export function LastSeen({ at }: { at: string | null }): JSX.Element {
  return <span class="badge neutral">{at === null ? 'not connected' : <>last seen {<SinceTime at={at} />}</>}</span>;
}

export function Page({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  useEffect(() => {
    setTitle({ page: visible(title) });
  }, [title]);
  return (
    <>
      <div class="page-head">
        <h1>
          <Text of={title} />
        </h1>
        <div class="actions">{actions}</div>
      </div>
      {children}
    </>
  );
}

export function Section({ title, children }: { title: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

export function Failure({ error }: { error: Error | null | undefined }): JSX.Element | null {
  if (error == null) return null;
  const hint = error instanceof ApiError ? error.hint : undefined;
  return (
    <div class="failure" role="alert">
      <Text of={error.message} />
      {hint !== undefined && hint !== '' && (
        <div class="muted">
          <Text of={hint} />
        </div>
      )}
    </div>
  );
}

export interface Reading<T> {
  readonly data: T | undefined;
  readonly error: Error | null;
  /** When the data was read, ms since 1970. */
  readonly dataUpdatedAt?: number;
  readonly refetch?: () => unknown;
}

/** Shows the result of a read: its error with a retry, that it is under way, or the data. Old data stays beside a new error. */
export function Loaded<T>({ query, children }: { query: Reading<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  const { data, error, dataUpdatedAt, refetch } = query;
  return (
    <>
      <Failure error={error} />
      {error !== null && (
        <p>
          {data !== undefined && dataUpdatedAt !== undefined && (
            <span class="muted">What is shown is from {time(new Date(dataUpdatedAt).toISOString())}. </span>
          )}
          {refetch !== undefined && (
            <button type="button" onClick={() => void refetch()}>
              Try again
            </button>
          )}
        </p>
      )}
      {data === undefined ? error === null && <p class="muted">Loading…</p> : children(data)}
    </>
  );
}

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Stays in one line. */
  readonly isId?: boolean;
  /** Text of any length: wide, and broken anywhere. */
  readonly isLong?: boolean;
  /** The rows can be in the order of this column, and in which one they are. */
  readonly order?: { readonly current: 'ascending' | 'descending' | 'none'; readonly onChange: () => void };
}

function classOf({ isNumber, isId, isLong }: Column<never>): string {
  if (isNumber === true) return 'number';
  if (isId === true) return 'id';
  return isLong === true ? 'long' : '';
}

/** A table that scrolls by itself on narrow screens, also by keyboard. */
export function Table<T>({
  label,
  rows,
  columns,
  id,
  isStale,
  empty,
}: {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  id: (row: T) => string;
  /** Whether a row shows what was, not what is: it is grey. */
  isStale?: (row: T) => boolean;
  empty: string;
}): JSX.Element {
  if (rows.length === 0) return <p class="muted">{empty}</p>;
  return (
    <div class="table" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, isNumber, order }) => (
              <th key={title} scope="col" class={isNumber === true ? 'number' : ''} aria-sort={order?.current}>
                {order === undefined ? (
                  title
                ) : (
                  <button type="button" class="order" onClick={order.onChange}>
                    {title}
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} class={isStale?.(row) === true ? 'stale' : ''}>
              {columns.map((column) => (
                <td key={column.title} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A button that, where the action is not permitted, stays in the tab order and says why. */
export function ActionButton({
  refusal,
  isBusy,
  tone,
  onClick,
  children,
}: {
  refusal?: string | undefined;
  isBusy?: boolean;
  tone?: 'danger' | 'primary';
  onClick: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const id = useId();
  const isDisabled = refusal !== undefined || isBusy === true;
  return (
    <>
      <button
        type="button"
        class={tone ?? ''}
        aria-disabled={isDisabled}
        title={refusal ?? ''}
        aria-describedby={refusal === undefined ? undefined : id}
        onClick={() => {
          if (!isDisabled) onClick();
        }}
      >
        {children}
      </button>
      {refusal !== undefined && (
        <span id={id} class="visually-hidden">
          {refusal}
        </span>
      )}
    </>
  );
}

/** A button whose action is carried out only after a dialog said what it will do. */
export function ConfirmButton({
  label,
  explain,
  refusal,
  isBusy,
  isReady = true,
  typed,
  onOpen,
  onConfirm,
}: {
  label: string;
  explain: ComponentChildren;
  refusal?: string | undefined;
  isBusy?: boolean;
  /** Whether `explain` says all that it will, so that the action can be confirmed. */
  isReady?: boolean;
  /** A name that must be typed first, for what cannot be undone and takes much with it. */
  typed?: string;
  onOpen?: () => void;
  onConfirm: () => void;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState('');
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
  }, [isOpen]);
  return (
    <>
      <ActionButton
        refusal={refusal}
        isBusy={isBusy ?? false}
        tone="danger"
        onClick={() => {
          onOpen?.();
          setName('');
          setOpen(true);
        }}
      >
        {label}
      </ActionButton>
      {isOpen && (
        <dialog ref={dialog} aria-labelledby={id} onClose={() => setOpen(false)}>
          <h2 id={id}>{label}?</h2>
          <div>{explain}</div>
          {typed !== undefined && (
            <p>
              <label for={`${id}-name`}>
                Type <Text of={typed} /> to confirm
              </label>
              <input
                id={`${id}-name`}
                autocomplete="off"
                spellcheck={false}
                value={name}
                onInput={({ currentTarget }) => setName(currentTarget.value)}
              />
            </p>
          )}
          <form method="dialog" class="actions">
            <button autofocus>Keep</button>
            <button class="danger" disabled={!isReady || (typed !== undefined && name !== typed)} onClick={onConfirm}>
              {label}
            </button>
          </form>
        </dialog>
      )}
    </>
  );
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }): JSX.Element {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  const words = { idle: label, copied: 'Copied', failed: 'Cannot copy: select the text' };
  return (
    <button
      type="button"
      onClick={() => {
        // Without HTTPS browsers offer no clipboard, except on loopback.
        if (!('clipboard' in navigator)) return setState('failed');
        navigator.clipboard.writeText(text).then(
          () => setState('copied'),
          () => setState('failed'),
        );
        return undefined;
      }}
    >
      <span aria-live="polite">{words[state]}</span>
    </button>
  );
}

/** An id or address with a button that copies it. */
export function Copied({ of }: { of: string }): JSX.Element {
  return (
    <>
      <Mono of={of} /> <CopyButton text={of} />
    </>
  );
}

export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
