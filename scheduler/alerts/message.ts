/** Messages about incidents, as a chat (Slack and what understands its webhooks) and as an e-mail show them. Pure. */
import { visibleText } from '../../lib/visible-text.ts';
import { RUNBOOKS, type Incident } from '../incidents/incident.ts';
import type { ToldIncident } from '../core/state/control-rows.ts';
import type { Changes } from './changes.ts';

/** Incidents that a message names. */
const MAX_NAMED = 20;
/** Characters of the message of an incident: errors of users' code are part of it. */
const MAX_LINE = 400;

export interface AlertMessage {
  /** One line. */
  readonly subject: string;
  readonly lines: readonly string[];
}

/** `site`: base URL of the HTTP API, for links; empty if unknown. `now`: wall clock, ms. */
export function alertMessage({ begun, over }: Changes, { site, now }: { readonly site: string; readonly now: number }): AlertMessage {
  const named = [...begun.map((incident) => begunLines(incident, site)), ...over.map((incident) => [overLine(incident, now)])];
  const rest = named.length - MAX_NAMED;
  const lines = [...named.slice(0, MAX_NAMED).flat(), ...(rest > 0 ? [`${rest} more: capstan status`] : [])];
  const first = begun[0] === undefined ? `over: ${oneLine(over[0]?.message ?? '')}` : oneLine(begun[0].message);
  const others = named.length - 1;
  return { subject: `Capstan: ${first.slice(0, 120)}${others > 0 ? ` (and ${others} more)` : ''}`, lines };
}

export function testMessage(account: string): AlertMessage {
  return { subject: 'Capstan: test of alerts', lines: [`This is a test of the alerts of account ${account}. Nothing is wrong.`] };
}

/** The body of a Slack-compatible webhook. */
export function chatBody({ lines }: AlertMessage): string {
  return JSON.stringify({ text: lines.map(escaped).join('\n') });
}

function begunLines({ severity, message, sinceMs, actions, kind }: Incident, site: string): string[] {
  const since = sinceMs === undefined ? '' : `, since ${utc(sinceMs)}`;
  const head = `${severity === 'CRITICAL' ? '🔴 critical' : '🟡 warning'}: ${oneLine(message)}${since}`;
  const commands = actions.map(({ label, command }) => `    ${label}: ${oneLine(command)}`);
  return [head, ...commands, `    What to do: ${site === '' ? `docs/${RUNBOOKS[kind]}` : `${site}/console/docs/${RUNBOOKS[kind]}`}`];
}

function overLine({ message, toldAt }: ToldIncident, now: number): string {
  return `🟢 over: ${oneLine(message)} (told at ${utc(toldAt)}, ${minutes(now - toldAt)} ago)`;
}

function minutes(ms: number): string {
  const count = Math.max(1, Math.round(ms / 60_000));
  return count < 120 ? `${count} min` : `${Math.round(count / 60)} h`;
}

function utc(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** Text of users as one line that moves no cursor. */
function oneLine(text: string): string {
  return visibleText(text.replaceAll(/\s+/g, ' ')).slice(0, MAX_LINE);
}

/** Text of users names nobody in the chat, and has no links that show another address than their own (of Slack, or of Markdown). */
function escaped(text: string): string {
  const plain = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return plain.replaceAll('@', '@\u200B').replaceAll('](', ']\u200B(');
}
