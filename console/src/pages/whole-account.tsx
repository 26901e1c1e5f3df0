import type { ComponentChildren, JSX } from 'preact';

import { useWholeAccount } from '../api/session.ts';

/** Shows its content to keys that cover the whole account, and to others why they do not see it. */
export function WholeAccount({ children }: { children: ComponentChildren }): JSX.Element {
  return useWholeAccount() ? <>{children}</> : <p class="muted">This needs a key with the scope ALL, READ_ONLY or OPERATOR.</p>;
}
