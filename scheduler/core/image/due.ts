import type { JobImage, Waiter } from './jobs.ts';

/** What a deadline is about. */
export type Due =
  | { readonly due: 'waiter'; readonly waiter: Waiter }
  | { readonly due: 'record-start'; readonly job: JobImage; readonly token: number }
  | { readonly due: 'silence'; readonly node: string }
  | { readonly due: 'grace'; readonly node: string }
  | { readonly due: 'scale' }
  /** Room was made: endpoints without a place are looked at. */
  | { readonly due: 'room' }
  | { readonly due: 'key-expiry'; readonly hash: string }
  /** Builds that nobody deployed may have to go. */
  | { readonly due: 'build-sweep' }
  | { readonly due: 'refill'; readonly endpoint: string };
