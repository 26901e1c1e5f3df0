/** Delivers one message to a channel: by a webhook under the rules of the webhooks of jobs, or by e-mail. */
import { errnoOf } from '../../lib/to-error.ts';
import type { AddressGuard } from '../webhooks/guard.ts';
import { failed, post, type PostResult } from '../webhooks/post.ts';
import type { Resolve } from '../webhooks/resolver.ts';
import { chatBody, type AlertMessage } from './message.ts';

/** The SMTP server of the operator. */
export interface MailServer {
  /** `smtp://user:password@host:587`. Secret. */
  readonly url: string;
  readonly from: string;
}

export interface DeliveryOptions {
  readonly guardOf: (account: string) => AddressGuard;
  readonly resolve: Resolve;
  readonly connectMs: number;
  readonly totalMs: number;
  readonly userAgent: string;
  /** Null if the operator has set none. */
  readonly mail: MailServer | null;
}

export interface Recipient {
  readonly account: string;
  readonly kind: 'WEBHOOK' | 'EMAIL';
  /** URL or e-mail address. Secret. */
  readonly address: string;
}

/** Tries of a message, and the time between them, ms: those of the webhooks of jobs. */
const TRIES = 3;
const RETRY_MS = 10_000;
/** Deliveries to one host, and to all, at once. */
const MAX_OF_HOST = 8;
const MAX_AT_ONCE = 64;

export class AlertDelivery {
  readonly #options: DeliveryOptions;
  readonly #underWay = new Map<AbortController, string>();
  #isClosed = false;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  get hasMail(): boolean {
    return this.#options.mail !== null;
  }

  /** Whether a message can be sent to the recipient now. */
  hasRoom(recipient: Recipient): boolean {
    const host = hostOf(recipient);
    const ofHost = [...this.#underWay.values()].filter((each) => each === host).length;
    return !this.#isClosed && this.#underWay.size < MAX_AT_ONCE && ofHost < MAX_OF_HOST;
  }

  /** Sends a message with all its tries. Undefined if it was cancelled. */
  async send(recipient: Recipient, message: AlertMessage): Promise<PostResult | undefined> {
    const stop = new AbortController();
    this.#underWay.set(stop, hostOf(recipient));
    try {
      for (let tries = 1; ; tries++) {
        const result = await this.#try(recipient, message, stop);
        if (this.#isClosed) return result.result === 'delivered' ? result : undefined;
        if (result.result === 'delivered' || result.refused || tries === TRIES) return result;
        if (!(await passed(RETRY_MS, stop.signal))) return undefined;
      }
    } finally {
      this.#underWay.delete(stop);
    }
  }

  /** Sends a message once. */
  async once(recipient: Recipient, message: AlertMessage): Promise<PostResult> {
    const stop = new AbortController();
    this.#underWay.set(stop, hostOf(recipient));
    try {
      return await this.#try(recipient, message, stop);
    } finally {
      this.#underWay.delete(stop);
    }
  }

  /** Cancels what is under way; nothing is sent from then on. */
  close(): void {
    this.#isClosed = true;
    for (const stop of this.#underWay.keys()) stop.abort();
  }

  #try({ kind, account, address }: Recipient, message: AlertMessage, stop: AbortController): Promise<PostResult> {
    if (kind === 'EMAIL') return this.#mail(address, message);
    const body = Buffer.from(chatBody(message));
    const target = { url: address, guard: this.#options.guardOf(account) };
    // A message is a try of its own: its time-out does not cancel the next one.
    const own = new AbortController();
    const abort = (): void => own.abort();
    stop.signal.addEventListener('abort', abort, { once: true });
    if (stop.signal.aborted) abort();
    const accepts = (status: number): boolean => status >= 200 && status < 300;
    return post(target, { headers: {}, size: body.length, content: () => Promise.resolve(body) }, { ...this.#options, accepts, stop: own });
  }

  async #mail(to: string, message: AlertMessage): Promise<PostResult> {
    const { mail } = this.#options;
    if (mail === null) return failed('the operator has set no CAPSTAN_SMTP_URL', true);
    try {
      await this.#sendMail(mail, to, message);
      return { result: 'delivered' };
    } catch (error) {
      return failed(mailFailure(error, mail.url));
    }
  }

  async #sendMail({ url, from }: MailServer, to: string, { subject, lines }: AlertMessage): Promise<void> {
    const { connectMs, totalMs } = this.#options;
    // Loaded with the first e-mail: few services send any.
    const { createTransport } = await import('nodemailer');
    const transport = createTransport({
      url,
      // Who stands between could otherwise remove the offer of TLS, and read the password. The URL's own `requireTLS` comes first.
      requireTLS: new URL(url).username !== '',
      connectionTimeout: connectMs,
      greetingTimeout: connectMs,
      socketTimeout: totalMs,
    });
    try {
      await transport.sendMail({ from, to, subject, text: `${lines.join('\n')}\n` });
    } finally {
      transport.close();
    }
  }
}

/** Accounts read it: a reply of the mail server, or what failed, without addresses of the operator's network. */
function mailFailure(error: unknown, url: string): string {
  const reply = error instanceof Error && 'response' in error && typeof error.response === 'string' ? error.response : '';
  if (reply !== '') return `the mail server replied: ${withoutCredentials(reply, url)}`;
  return `the mail server of CAPSTAN_SMTP_URL cannot be used (${errnoOf(error) ?? 'an error without a code'})`;
}

/** A reply of the mail server must not show the operator's password. */
function withoutCredentials(text: string, url: string): string {
  const { username, password } = new URL(url);
  const secrets = [url, password, decoded(password), decoded(username)].filter((secret) => secret !== '');
  return secrets
    .reduce((shown, secret) => shown.replaceAll(secret, '***'), text)
    .replaceAll(/\s+/g, ' ')
    .slice(0, 300);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // It has a percent sign that encodes nothing.
  }
}

function hostOf({ kind, address }: Recipient): string {
  return kind === 'EMAIL' ? 'mail' : (URL.parse(address)?.host ?? '');
}

/** Resolves to false if the wait is cancelled. */
function passed(ms: number, signal: AbortSignal): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(true), ms);
  timer.unref();
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    resolve(false);
  });
  return promise;
}
