/**
 * Messages for people, on stderr: `=>` a step, `✓` done, `!` a warning, `✗` an error, `hint:` dimmed. Only data goes to
 * stdout, so that a command's output can be piped.
 *
 * The tool prints through this file only, so every text is escaped here: whatever tenants, nodes or servers put into a
 * value, no control character reaches the terminal, and no value can look like a line of the tool.
 */
import pc from 'picocolors';

import { visibleLine, visibleText } from '../lib/visible-text.ts';
import { renderTable, type Table } from './table.ts';

export interface Stream {
  readonly isTTY?: boolean;
  /** Width of a terminal, cells. */
  readonly columns?: number;
  write(text: string): unknown;
}

export interface Terminal {
  /** Data goes to a person at a terminal. */
  readonly isInteractive: boolean;
  /** Messages go to a terminal, where a line may replace the one before. */
  readonly isLive: boolean;
  step(text: string): void;
  done(text: string): void;
  warn(text: string): void;
  fail(text: string): void;
  hint(text: string): void;
  /** A line without a sign. */
  line(text: string): void;
  /** Text without a line end of its own, such as the prompt of another program. */
  raw(text: string): void;
  /** The exact command to run next. */
  next(command: string): void;
  /** Replaces the previous progress line on a terminal; writes nothing elsewhere. An empty text removes the line. */
  progress(text: string): void;
  /** Moves to the top of the screen, whose text goes: what follows replaces it. Does nothing where stdout is no terminal. */
  top(): void;
  /** Data: a document on stdout, such as JSON or a table, with its own line breaks. */
  data(text: string): void;
  /** Data: rows in columns, which fit a terminal; columns that are left out are named in a hint. */
  table(table: Table): void;
  /** Data: one value on stdout, always on one line. */
  value(text: string): void;
  /** Data that a message already contains: printed on stdout only if that is not a terminal. */
  repeated(text: string): void;
}

export interface TerminalSettings {
  readonly out: Stream;
  readonly err: Stream;
  /** False if NO_COLOR is set; a stream that is not a terminal never has colours. */
  readonly colours: boolean;
  /** The command by which the reader runs the tool; replaces `capstan` in commands that are printed. */
  readonly tool?: string;
}

/** A command of the tool; the name of the service begins with a capital. */
const TOOL = /(?<=^|\s)capstan(?= [a-z-])/g;

export function createTerminal(streams: TerminalSettings): Terminal {
  const { out, err, tool = 'capstan' } = streams;
  const paint = pc.createColors(streams.colours && err.isTTY === true);
  let transient = false;

  const write = (text: string): void => {
    clear();
    err.write(`${text}\n`);
  };
  const clear = (): void => {
    if (transient) err.write('\r\u001B[2K');
    transient = false;
  };
  return {
    isInteractive: out.isTTY === true,
    isLive: err.isTTY === true,
    step: (text) => write(`${paint.cyan('=>')} ${message(text)}`),
    done: (text) => write(`${paint.green('✓')} ${message(text)}`),
    warn: (text) => write(`${paint.yellow('!')} ${message(text)}`),
    fail: (text) => write(`${paint.red('✗')} ${message(text)}`),
    hint: (text) => write(paint.dim(`hint: ${message(text).replaceAll(TOOL, tool)}`)),
    line: (text) => write(message(text)),
    raw(text) {
      clear();
      err.write(visibleText(text));
    },
    next: (command) => write(`${paint.dim('next:')} ${message(command).replaceAll(TOOL, tool)}`),
    progress(text) {
      if (err.isTTY !== true) return;
      clear();
      if (text === '') return;
      err.write(visibleLine(text));
      transient = true;
    },
    top() {
      clear();
      if (out.isTTY === true) out.write('\u001B[H\u001B[J');
    },
    data(text) {
      clear();
      out.write(`${visibleText(text)}\n`);
    },
    table(table) {
      const { text, omitted } = renderTable(table, widthOf(out));
      this.data(text);
      if (omitted.length > 0) this.hint(`not shown in this width: ${omitted.join(', ')}; -o json has all`);
    },
    value(text) {
      this.data(visibleLine(text));
    },
    repeated(text) {
      if (out.isTTY !== true) this.value(text);
    },
  };
}

/** Undefined where there is no terminal, and for one that has no size: its width is 0. */
function widthOf({ isTTY, columns }: Stream): number | undefined {
  return isTTY === true && columns !== 0 ? columns : undefined;
}

/** Lines after the first are indented, so that none looks like a message of the tool. */
function message(text: string): string {
  return visibleText(text).replaceAll(/\n(?! {2})/g, '\n  ');
}
