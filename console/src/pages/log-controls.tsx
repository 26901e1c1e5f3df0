/** What logs have in common: choices, the number of lines, and their download. */
import type { JSX } from 'preact';

import { save } from '../ui/download.ts';
import { zoneName } from '../ui/format.ts';
import { linesAsText, type LogLine } from './log-lines.tsx';

export const STREAMS = ['stdout', 'stderr', 'system'];

/** The attempts of jobs that lines are of. */
export function attemptsOf(lines: readonly LogLine[]): readonly string[] {
  return [...new Set(lines.flatMap(({ attempt }) => attempt ?? []))].toSorted((a, b) => a - b).map(String);
}

/** The lines of one attempt; all where none is chosen. */
export function ofAttempt(lines: readonly LogLine[], attempt: string): readonly LogLine[] {
  return attempt === '' ? lines : lines.filter((line) => String(line.attempt) === attempt);
}

/** How many lines there are, the zone of their times, and a button that saves them as `<name>.log`. */
export function LogHead({ name, lines }: { name: string; lines: readonly LogLine[] }): JSX.Element {
  return (
    <div class="log-head">
      <span class="muted">
        {lines.length} lines; times of {zoneName()}
      </span>
      <button
        type="button"
        disabled={lines.length === 0}
        onClick={() => save(`${name}.log`, new Blob([linesAsText(lines)], { type: 'text/plain' }))}
      >
        Download log
      </button>
    </div>
  );
}

interface ChoiceProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly of: readonly string[];
  readonly onChange: (value: string) => void;
}

/** A field with these values, or all. */
export function Choice({ id, label, value, of, onChange }: ChoiceProps): JSX.Element {
  return (
    <div>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {of.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </div>
  );
}

export function Switch({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }): JSX.Element {
  return (
    <label>
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}
    </label>
  );
}
