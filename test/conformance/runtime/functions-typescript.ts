/** The functions that every runtime must run alike, in TypeScript. */
export const TYPESCRIPT_FUNCTIONS = `
import { execSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

let calls = 0;
const gates = new Map<string, () => void>();

export function typed(text: string, count: number, ratio = 0.5, flag = false, list: unknown[] = [], more: object = {}) { return [text, count, ratio, flag, list, more]; }
export function add(a: number, b: number) { return a + b; }
export async function later(value: unknown) { await sleep(1); return value; }
export function nothing() {}
export function fails(message: string) { throw new Error(message); }
export function throwsText() { throw 'plain text'; }
export function throwsObject() { throw { code: 7 }; }
export async function rejects() { await sleep(1); throw new TypeError('rejected'); }
export function big() { return { big: /x/ }; }
export function cycle() { const a: Record<string, unknown> = {}; a.a = a; return a; }
export function large(bytes: number) { return 'x'.repeat(bytes); }
export function* count(to: number) { for (let i = 0; i < to; i += 1) yield i; }
export async function* countLater(to: number) { for (let i = 0; i < to; i += 1) { await sleep(1); yield { i }; } }
export function* failsMidway() { yield 'first'; throw new Error('midway'); }
export function* largeChunk(bytes: number) { yield 'x'.repeat(bytes); }
export function* endless() { for (let i = 0; ; i += 1) yield i; }
export function scratch() {
  writeFileSync('out.txt', 'written');
  writeFileSync('deep/new.txt', 'beside');
  return ['data.json', 'deep/table.txt', 'out.txt', 'deep/new.txt'].map((name) => readFileSync(name, 'utf8'));
}
export function environment(names: string[]) { return names.map((name) => process.env[name] ?? null); }
export function allEnvironment() { return Object.keys(process.env); }
export function counter() { calls += 1; return calls; }
export function prints(text: string) { console.log(text); console.error('err ' + text); return text; }
export function context(ctx: any) { return { jobId: ctx.jobId, endpointId: ctx.endpointId, attempt: ctx.attempt, s3: ctx.s3Config ?? null, aborted: ctx.signal.aborted }; }
export async function progress(ctx: any) { ctx.progress({ percent: 50 }); await sleep(20); return 'done'; }
export async function obedient(ctx: any) { await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(new Error('told to stop')))); }
export async function deaf() { await new Promise(() => setInterval(() => undefined, 1000)); }
export function busy() { for (;;) ; }
export function stuck() { execSync('sleep 300'); }
export function exits(code: number) { process.exit(code); }
export function crashes() { process.kill(process.pid, 'SIGKILL'); }
export async function stray() { setTimeout(() => { throw new Error('stray error'); }, 1); await new Promise(() => undefined); }
export async function waits(gate: string) { await new Promise<void>((resolve) => gates.set(gate, resolve)); return gate; }
export function opens(gate: string) { gates.get(gate)?.(); return gates.has(gate); }
export function child() { const made = spawn('sleep', ['300']); return made.pid; }
export async function hogs() { const kept: Buffer[] = []; for (;;) { kept.push(Buffer.alloc(16 * 1024 * 1024, 1)); await sleep(5); } }

export class Counter {
  static made = 0;
  #total = 0;
  constructor() { Counter.made += 1; }
  add(by: number) { this.#total += by; return { total: this.#total, made: Counter.made }; }
  async later(by: number, ctx: any) { await sleep(1); return [by, ctx.jobId]; }
  *chunks(to: number) { for (let i = 0; i < to; i += 1) yield i; }
  _hidden() { return 'hidden'; }
}
class Base { prefix = 'sole '; greet(name: string) { return this.prefix + name; } }
export class Sole extends Base {}
export class Hidden { _only() { return 1; } }
export class Unmade { constructor() { throw new Error('cannot be made'); } run() { return 1; } }
`;
