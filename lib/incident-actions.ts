/** What an incident offers to do, as the scheduler names it; the console knows the page for each. */
export const RESUME = 'Resume';
export const SHOW_WHY = 'Show why';
export const OPEN_LOGS = 'Open logs';
export const ROLL_BACK = 'Roll back';
export const RETRY_ALL_FAILED = 'Retry all failed';
export const RAISE_WORKERS_MAX = 'Raise workersMax';
export const LOWER_WORKERS_MIN = 'Lower workersMin';
export const RESEND_ALL_FAILED = 'Resend all failed';
export const CREATE_ANOTHER_KEY = 'Create another key';

export function raiseQuotaOf(noun: 'workers' | 'builds' | 'bodies'): string {
  return `Raise the quota of ${noun}`;
}
