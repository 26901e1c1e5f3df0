/** The requests of pages that wait for log lines at the gateway. */
import type { Page, Request } from 'playwright-core';

export interface LogWaits {
  readonly open: number;
  readonly all: number;
  /** At one time, by the browser's clock: events of several pages arrive in any order. Those that were broken off do not count. */
  most(): number;
}

/** Counts them from now on. */
export function logWaits(...pages: readonly Page[]): LogWaits {
  const spans: { readonly from: number; readonly to: number }[] = [];
  const counts = {
    open: 0,
    all: 0,
    most: () => Math.max(0, ...spans.map(({ from }) => spans.filter((other) => other.from <= from && from < other.to).length)),
  };
  const isWait = (request: Request): boolean => /"waitMs":[1-9]/.test(request.postData() ?? '');
  for (const page of pages) {
    page.on('request', (request) => {
      if (!isWait(request)) return;
      counts.all += 1;
      counts.open += 1;
    });
    page.on('requestfinished', (request) => {
      if (!isWait(request)) return;
      counts.open -= 1;
      const { startTime, responseEnd } = request.timing();
      spans.push({ from: startTime, to: startTime + responseEnd });
    });
    page.on('requestfailed', (request) => {
      if (isWait(request)) counts.open -= 1;
    });
  }
  return counts;
}
