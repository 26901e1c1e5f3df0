/**
 * Where a request to a load-balanced endpoint has its key: in the header X-Capstan-Key, else in the cookie of a sign-in, else in
 * Authorization. With one of the first two, Authorization belongs to the application. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';

/** Never forwarded (shared-origin.ts). */
export const KEY_HEADER = 'x-capstan-key';

export type Presented =
  | { readonly kind: 'header'; readonly header: string; readonly isOwnHeader: boolean }
  | { readonly kind: 'signed-in'; readonly hash: string }
  | { readonly kind: 'none' };

/** `signedInAs`: returns the hash of the key that the cookie stands for; undefined if it stands for none. */
export function presentedKey(headers: IncomingHttpHeaders, signedInAs: () => string | undefined): Presented {
  const own = headers[KEY_HEADER];
  if (own !== undefined) return { kind: 'header', header: String(own), isOwnHeader: true };
  const hash = headers.cookie === undefined ? undefined : signedInAs();
  if (hash !== undefined) return { kind: 'signed-in', hash };
  return headers.authorization === undefined ? { kind: 'none' } : { kind: 'header', header: headers.authorization, isOwnHeader: false };
}

/** Whether Authorization is the application's: it holds no credential of this service then, or one that is removed. */
export function leavesAuthorization(presented: Presented): boolean {
  return presented.kind === 'signed-in' || (presented.kind === 'header' && presented.isOwnHeader);
}
