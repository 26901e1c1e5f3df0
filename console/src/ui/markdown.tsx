/** Markdown of this repository's own documents: headings, paragraphs, lists, tables, code, links between its pages. */
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

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
  const heading = /^(#{2,4}) (.+)$/.exec(of);
  if (heading !== null)
    return (
      <h2 id={slug(heading[2] ?? '')}>
        <Inline of={heading[2] ?? ''} />
      </h2>
    );
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

/** The address of a heading, as GitHub makes it. */
export function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .trim()
    .replaceAll(' ', '-');
}

function Reference({ of }: { of: string }): JSX.Element {
  const [, text = of, target = ''] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(of) ?? [];
  // Pages of the folder docs are served here; `#section` is on the same page. Other files are in the repository only.
  if (/^[a-z0-9-]+\.md(?:#|$)/.test(target)) return <Link href={`/docs/${target}`}>{text.replaceAll('`', '')}</Link>;
  if (target.startsWith('#')) return <a href={`${location.pathname}${target}`}>{text.replaceAll('`', '')}</a>;
  if (target.startsWith('https://'))
    return (
      <a href={target} rel="noreferrer">
        {text.replaceAll('`', '')}
      </a>
    );
  return <>{text}</>;
}

function Inline({ of }: { of: string }): JSX.Element {
  const parts = of.replaceAll('\n', ' ').split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/);
  return (
    <>
      {parts.map((part, i) => {
        if (/^\[[^\]]+\]\(/.test(part)) return <Reference key={i} of={part} />;
        if (part.startsWith('`')) return <code key={i}>{part.slice(1, -1)}</code>;
        return part.startsWith('**') ? <b key={i}>{part.slice(2, -2)}</b> : part;
      })}
    </>
  );
}
