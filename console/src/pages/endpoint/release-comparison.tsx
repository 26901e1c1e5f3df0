/** What differs between two releases: settings, files and packages. */
import type { JSX } from 'preact';

import { GET_BUILD_DIFFERENCE, type GetBuildDifferenceResult, type ListReleasesResult } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { bytes, time } from '../../ui/format.ts';
import { Loaded, Mono, Section, Text } from '../../ui/parts.tsx';
import { visible } from '../../ui/plain-text.ts';
import { useUrlState } from '../../ui/url-state.ts';
import { differencesBetween } from './release-differences.ts';
import { Differences } from './settings-differences.tsx';

type Release = ListReleasesResult['builds'][number];

/** Two releases are chosen in the address; the newest and the one before without a choice. */
export function ReleaseComparison({ builds }: { builds: readonly Release[] }): JSX.Element {
  const [values, change] = useUrlState({ from: '', to: '' });
  const chosen = (digest: string, place: number): Release | undefined => builds.find((each) => each.digest === digest) ?? builds[place];
  const [from, to] = [chosen(values.from, 1), chosen(values.to, 0)];
  if (from === undefined || to === undefined) return <></>;
  return (
    <Section title="Compare releases">
      <div class="fields">
        <ReleaseSelect id="compare-from" label="From" of={builds} value={from.digest} onChange={(digest) => change({ from: digest })} />
        <ReleaseSelect id="compare-to" label="To" of={builds} value={to.digest} onChange={(digest) => change({ to: digest })} />
      </div>
      <div class="panel">
        <h3>Settings</h3>
        <Differences of={differencesBetween(from.settings, to.settings)} isOpen />
        <Contents from={from.digest} to={to.digest} />
      </div>
    </Section>
  );
}

interface ReleaseSelectProps {
  readonly id: string;
  readonly label: string;
  readonly of: readonly Release[];
  readonly value: string;
  readonly onChange: (digest: string) => void;
}

function ReleaseSelect({ id, label, of, value, onChange }: ReleaseSelectProps): JSX.Element {
  return (
    <div>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {of.map(({ digest, deployedAt, release: { number, source } }) => (
          <option key={digest} value={digest}>
            {visible(`${number === 0 ? '' : `${number}, `}${time(deployedAt)}${source === null ? '' : `, ${source.message.slice(0, 40)}`}`)}
          </option>
        ))}
      </select>
    </div>
  );
}

function Contents({ from, to }: { from: string; to: string }): JSX.Element {
  const refusal = useWriteRefusal();
  const isRead = refusal === undefined && from !== to;
  const query = useLive(
    ['build-difference', from, to],
    async (signal) => (isRead ? (await graphql(GET_BUILD_DIFFERENCE, { from, to }, signal)).buildDifference : null),
    false,
  );
  if (refusal !== undefined) return <p class="muted">Files and packages are shown to keys with the scope ALL or OPERATOR.</p>;
  return (
    <Loaded query={query}>
      {(found) =>
        found === null ? (
          <p class="muted">The same build.</p>
        ) : (
          <>
            <h3>Files</h3>
            <Files of={found} />
            <h3>Packages</h3>
            <Packages of={found} />
          </>
        )
      }
    </Loaded>
  );
}

type Found = GetBuildDifferenceResult['buildDifference'];

function Files({ of: { files, filesOmitted } }: { of: Found }): JSX.Element {
  if (files.length === 0) return <p class="muted">The same.</p>;
  return (
    <ul class="plain">
      {files.map(({ path, sizeBefore, sizeAfter }) => (
        <li key={path}>
          <Mono of={path} />:{' '}
          <Sides before={sizeBefore === null ? null : bytes(sizeBefore)} after={sizeAfter === null ? null : bytes(sizeAfter)} />
        </li>
      ))}
      {filesOmitted > 0 && <li>{filesOmitted} more</li>}
    </ul>
  );
}

function Packages({ of: { packages, packagesOmitted } }: { of: Found }): JSX.Element {
  if (packages.length === 0) return <p class="muted">The same.</p>;
  return (
    <ul class="plain">
      {packages.map(({ name, before, after }) => (
        <li key={name}>
          <Mono of={name} />: <Sides before={before} after={after} />
        </li>
      ))}
      {packagesOmitted > 0 && <li>{packagesOmitted} more</li>}
    </ul>
  );
}

/** Null: it is not in this build. */
function Sides({ before, after }: { before: string | null; after: string | null }): JSX.Element {
  if (before === null)
    return (
      <ins>
        added
        {after === '' || after === null ? (
          ''
        ) : (
          <>
            {' '}
            (<Text of={after} />)
          </>
        )}
      </ins>
    );
  if (after === null) return <del>removed</del>;
  return (
    <>
      <del>
        <Text of={before} />
      </del>{' '}
      →{' '}
      <ins>
        <Text of={after} />
      </ins>
    </>
  );
}
