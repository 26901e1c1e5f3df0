import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

import { send } from './request.ts';

export interface Session {
  readonly account: { readonly id: string; readonly name?: string };
  readonly scope: string;
  readonly keyName?: string;
  readonly isOperator: boolean;
  /** Inputs and outputs are shown only when asked for. */
  readonly hidePayloads: boolean;
}

export async function readSession(): Promise<Session> {
  return (await (await send('session')).json()) as Session;
}

export async function signIn(apiKey: string): Promise<Session> {
  return (await (await send('session', { method: 'POST', body: JSON.stringify({ apiKey }) })).json()) as Session;
}

export async function signOut(): Promise<void> {
  await send('session', { method: 'DELETE' });
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('no session');
  return session;
}

/** Returns why the key of this session may not change anything; undefined if it may. */
export function useWriteRefusal(): string | undefined {
  const { scope } = useSession();
  return scope === 'ALL' || scope === 'OPERATOR' ? undefined : `A key with the scope ${scope} cannot change anything.`;
}

/** Returns why the key of this session may not change nodes, accounts and join tokens; undefined if it may. */
export function useOperatorRefusal(): string | undefined {
  const { isOperator } = useSession();
  return isOperator ? undefined : 'This needs a key with the scope OPERATOR.';
}

/** Whether the key covers the whole account; others find only some endpoints, and neither nodes nor problems. */
export function useWholeAccount(): boolean {
  return ['ALL', 'READ_ONLY', 'OPERATOR'].includes(useSession().scope);
}
