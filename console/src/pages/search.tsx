/** One search box for all pages: Ctrl+K (on macOS ⌘K), arrows, Enter. */
import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';

import { LIST_FLEET, LIST_FOUND_ENDPOINTS } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWholeAccount } from '../api/session.ts';
import { Failure, Text } from '../ui/parts.tsx';
import { findJob, jobIdIn, matching, targetsOf, type Fleet, type Target } from './search-targets.ts';

const POLL_MS = 10_000;
const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** On macOS, Ctrl+K deletes to the end of a line in every text field: there the box opens by ⌘K only. */
function isShortcut({ ctrlKey, metaKey }: KeyboardEvent): boolean {
  return IS_APPLE ? metaKey && !ctrlKey : ctrlKey !== metaKey;
}

export function SearchBox(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const open = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || event.shiftKey || event.altKey || !isShortcut(event)) return;
      event.preventDefault();
      // What a dialog says of a page must not be left behind unanswered.
      if (document.querySelector('dialog[open]') === null) setOpen(true);
    };
    document.addEventListener('keydown', open);
    return () => document.removeEventListener('keydown', open);
  }, []);
  return (
    <>
      <button
        type="button"
        aria-keyshortcuts={IS_APPLE ? 'Meta+K' : 'Control+K Meta+K'}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        Search <kbd aria-hidden="true">{IS_APPLE ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      {isOpen && <SearchDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function SearchDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [place, setPlace] = useState(0);
  const [, navigate] = useLocation();
  const id = useId();
  const { targets, more, isPending, error } = useTargets(text);
  const active = Math.min(place, targets.length - 1);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: 'nearest' }), [active]);

  // The event of a dialog that was closed comes later: another one may be open by then.
  const close = (): void => {
    dialog.current?.close();
    onClose();
  };
  const go = (target: Target | undefined): void => {
    if (target === undefined) return;
    close();
    navigate(target.path);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // Enter may end the composition of a character.
    if (event.isComposing) return;
    const moves: Readonly<Record<string, number>> = { ArrowDown: active + 1, ArrowUp: active - 1 };
    const next = moves[event.key];
    if (next !== undefined && targets.length > 0) {
      event.preventDefault();
      setPlace((next + targets.length) % targets.length);
    }
    // In a search field, browsers only empty it.
    if (event.key === 'Escape') {
      event.preventDefault();
      close();
    }
    if (event.key !== 'Enter') return;
    event.preventDefault();
    go(targets[active]);
  };
  return (
    <dialog
      ref={dialog}
      class="search"
      aria-label="Search"
      onClose={(event) => {
        if (event.currentTarget.isConnected) onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <input
        type="search"
        role="combobox"
        aria-label="Job, endpoint, node, worker or key"
        placeholder="Job ID, endpoint, node, worker or key"
        aria-expanded={targets.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={targets.length > 0 ? `${id}-${active}` : undefined}
        autocomplete="off"
        autofocus
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setPlace(0);
        }}
        onKeyDown={onKeyDown}
      />
      <Failure error={error} />
      <ul id={`${id}-list`} role="listbox" aria-label="Found">
        {targets.map((target, i) => (
          // The keyboard stays in the field, which names the active option.
          <li
            key={`${target.kind} ${target.id}`}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === active}
            onMouseMove={() => setPlace(i)}
            onClick={() => go(target)}
          >
            <span class="muted">{target.kind}</span>
            <span>
              <Text of={target.name} />{' '}
              <span class="muted">
                <Text of={target.detail} />
              </span>
            </span>
          </li>
        ))}
      </ul>
      <p class="muted" role="status">
        {outcome(targets.length, more, isPending, text.trim() === '')}
      </p>
    </dialog>
  );
}

function outcome(shown: number, more: number, isPending: boolean, isEmpty: boolean): string {
  if (isPending) return 'Searching…';
  if (more > 0) return `${more} more match. Type more of the name or ID.`;
  if (shown === 0) return isEmpty ? 'There is nothing to find yet.' : 'Nothing matches. Jobs are found by their whole ID.';
  return '↑ and ↓ choose, Enter opens, Esc closes.';
}

interface Found {
  readonly targets: readonly Target[];
  readonly more: number;
  readonly isPending: boolean;
  readonly error: Error | null;
}

function useTargets(text: string): Found {
  const coversAll = useWholeAccount();
  const fleet = useLive<Fleet>(
    ['search'],
    (signal) => (coversAll ? graphql(LIST_FLEET, {}, signal) : graphql(LIST_FOUND_ENDPOINTS, {}, signal)),
    POLL_MS,
  );
  const jobId = jobIdIn(text);
  const { endpoints } = fleet.data ?? {};
  const isReady = jobId !== undefined && endpoints !== undefined;
  const job = useLive(
    ['search-job', jobId, isReady],
    (signal) => (isReady ? findJob({ endpoints }, jobId, signal) : Promise.resolve(null)),
    false,
  );
  const { shown, more } = matching(fleet.data === undefined ? [] : targetsOf(fleet.data), text);
  return {
    targets: job.data == null ? shown : [job.data, ...shown],
    more,
    isPending: fleet.isPending || job.isPending,
    error: fleet.error ?? job.error,
  };
}
