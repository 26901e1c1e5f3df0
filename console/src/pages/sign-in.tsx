import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { signIn, type Session } from '../api/session.ts';
import { Failure, Text } from '../ui/parts.tsx';
import { ThemeSwitch } from '../ui/theme.tsx';

/** Exchanges an API key for a session. The key is not kept in the page. The path stays, so that its page opens next. */
export function SignInPage({ reason, onSignedIn }: { reason: string; onSignedIn: (session: Session) => void }): JSX.Element {
  const [apiKey, setApiKey] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Sign in – Capstan';
    field.current?.focus();
  }, []);

  async function submit(): Promise<void> {
    if (apiKey.trim() === '') {
      setError(new Error('Enter an API key.'));
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      onSignedIn(await signIn(apiKey.trim()));
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
      setBusy(false);
      field.current?.focus();
    }
  }

  return (
    <main class="sign-in panel">
      <h1>Capstan</h1>
      {reason !== '' && (
        <p role="status">
          <Text of={reason} />
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label for="api-key">API key</label>
        <input
          id="api-key"
          ref={field}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={apiKey}
          aria-invalid={error !== undefined}
          aria-describedby="api-key-help"
          onInput={(event) => setApiKey(event.currentTarget.value)}
        />
        <Failure error={error} />
        <p id="api-key-help" class="muted">
          <code>capstan key create</code> creates one. A key with the scope READ_ONLY sees everything and changes nothing.
        </p>
        <div class="actions">
          <button class="primary" disabled={isBusy}>
            {isBusy ? 'Signing in…' : 'Sign in'}
          </button>
          <ThemeSwitch />
        </div>
      </form>
    </main>
  );
}
