/** The views that were saved in this browser: what a page shows, under a name. */
import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { BASE_PATH } from '../api/request.ts';
import { useSession } from '../api/session.ts';
import { Failure } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { MAX_NAME, parseViews, withView, type SavedView } from '../ui/saved-views.ts';

export function SavedViews(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Views
      </button>
      {isOpen && <ViewsDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function ViewsDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const { account } = useSession();
  const dialog = useRef<HTMLDialogElement>(null);
  const [views, setViews] = useState(() => readViews(account.id));
  const [name, setName] = useState('');
  const [error, setError] = useState<Error>();
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const change = (next: () => readonly SavedView[]): void => {
    try {
      const changed = next();
      writeViews(account.id, changed);
      setViews(changed);
      setError(undefined);
    } catch (thrown) {
      setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  // Another tab may have changed them since.
  const add = (): void => change(() => withView(readViews(account.id), { name, path: presentPath() }));
  const remove = (removed: string): void => change(() => readViews(account.id).filter((view) => view.name !== removed));
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={(event) => {
        if (event.currentTarget.isConnected) onClose();
      }}
    >
      <h2 id={id}>Views saved in this browser</h2>
      {views.length === 0 && <p class="muted">None yet. A view is what a page shows now: filters, tab, order and range of time.</p>}
      <ul class="plain views">
        {views.map((view) => (
          <li key={view.name}>
            <Link href={view.path} onClick={() => dialog.current?.close()}>
              {visible(view.name)}
            </Link>
            <button type="button" class="danger" aria-label={`Delete ${visible(view.name)}`} onClick={() => remove(view.name)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <div class="wide">
          <label for={`${id}-name`}>Name of what this page shows</label>
          <input id={`${id}-name`} maxLength={MAX_NAME} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <button class="primary" disabled={name.trim() === ''}>
          Save
        </button>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </form>
      <Failure error={error} />
      <p class="muted">Saving under a name that is taken replaces that view.</p>
    </dialog>
  );
}

/** The address of what the page shows, below the console's own path. */
function presentPath(): string {
  const base = BASE_PATH.replace(/\/$/, '');
  return `${location.pathname.slice(base.length) || '/'}${location.search}`;
}

/** Accounts on one browser do not see each other's. */
function keyOf(account: string): string {
  return `capstan-views ${BASE_PATH} ${account}`;
}

/** None where the browser stores nothing. */
function readViews(account: string): readonly SavedView[] {
  try {
    return parseViews(localStorage.getItem(keyOf(account)));
  } catch (thrown) {
    if (thrown instanceof DOMException) return [];
    throw thrown;
  }
}

/** @throws DOMException where the browser stores nothing */
function writeViews(account: string, views: readonly SavedView[]): void {
  localStorage.setItem(keyOf(account), JSON.stringify(views));
}
