/** What a check of `capstan doctor` found. */
export interface Finding {
  readonly name: string;
  readonly verdict: 'ok' | 'warning' | 'fault';
  readonly text: string;
  /** Remedy; empty when there is nothing to do. */
  readonly hint: string;
}

export function ok(name: string, text: string): Finding {
  return { name, verdict: 'ok', text, hint: '' };
}

export function warning(name: string, text: string, hint: string): Finding {
  return { name, verdict: 'warning', text, hint };
}

export function fault(name: string, text: string, hint: string): Finding {
  return { name, verdict: 'fault', text, hint };
}
