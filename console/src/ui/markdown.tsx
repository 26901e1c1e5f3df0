/** Markdown of this repository's own documents: paragraphs, lists, tables, code. Links are shown as their text. */
import type { JSX } from 'preact';

/** Shows what follows from each other as elements; never as HTML. */
export function Markdown({ text }: { text: string }): JSX.Element {
  return (
    <div class="markdown">
      {blocksOf(text).map((block, i) => (
        <Block key={i} of={block} />
      ))}
    </div>
  );
}

/** Paragraphs, lists and tables are apart by empty lines, except within fences. */
function blocksOf(text: string): string[] {
  return text
    .split(/(```[\s\S]*?```)/)
    .flatMap((part) => (part.startsWith('```') ? [part] : part.split(/\n{2,}/)))
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function Block({ of }: { of: string }): JSX.Element {
  if (of.startsWith('```')) return <pre tabIndex={0}>{of.replaceAll(/^```.*$/gm, '').trim()}</pre>;
  if (of.startsWith('|')) return <Rows of={of.split('\n').map(cellsOf)} />;
  if (/^(-|\d+\.) /.test(of)) return <Items of={of.split(/\n(?=(?:-|\d+\.) )/)} isOrdered={/^\d/.test(of)} />;
  return (
    <p>
      <Inline of={of} />
    </p>
  );
}

function Items({ of, isOrdered }: { of: readonly string[]; isOrdered: boolean }): JSX.Element {
  const items = of.map((item) => (
    <li key={item}>
      <Inline of={item.replace(/^(-|\d+\.) /, '')} />
    </li>
  ));
  return isOrdered ? <ol>{items}</ol> : <ul>{items}</ul>;
}

function cellsOf(line: string): string[] {
  return line
    .replaceAll(/^\||\|$/g, '')
    .split('|')
    .map((cell) => cell.trim());
}

/** The second row only separates the head. */
function Rows({ of: [head = [], , ...rows] }: { of: readonly (readonly string[])[] }): JSX.Element {
  return (
    <div class="table" role="region" aria-label={head.join(', ')} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((cell) => (
              <th key={cell} scope="col">
                <Inline of={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row[0]}>
              {row.map((cell) => (
                <td key={cell}>
                  <Inline of={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline({ of }: { of: string }): JSX.Element {
  const parts = of
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replaceAll('\n', ' ')
    .split(/(`[^`]+`|\*\*[^*]+\*\*)/);
  return (
    <>
      {parts.map((part, i) => {
        if (part.startsWith('`')) return <code key={i}>{part.slice(1, -1)}</code>;
        return part.startsWith('**') ? <b key={i}>{part.slice(2, -2)}</b> : part;
      })}
    </>
  );
}
