/** Tokens of the console's sessions. */

/** What a token begins with: nothing else takes it for an API key. */
export const SESSION_PREFIX = 'ses_';

/** 256 bits in base64url. */
const SESSION_TOKEN = /^ses_[A-Za-z0-9_-]{43}$/;

export function isSessionToken(text: string): boolean {
  return SESSION_TOKEN.test(text);
}
