import type { JSX } from 'preact';

import { duration, time } from '../../ui/format.ts';
import { Badge, Section, Table, Text } from '../../ui/parts.tsx';
import { DeviceLinks, NodeLink, WorkerLink, WorkerStateOn } from '../fleet-names.tsx';
import type { EndpointData } from './query.ts';

const SHOWN_DECISIONS = 20;

/** Its workers, why no more start, and what the scheduler decided. */
export function Workers({ endpoint: { id: endpoint, scaling } }: { endpoint: EndpointData }): JSX.Element | null {
  if (scaling === null) return null;
  const decisions = scaling.decisions.slice(-SHOWN_DECISIONS).toReversed();
  return (
    <>
      <Section title="Workers">
        <Table
          label="Workers"
          rows={scaling.workers}
          id={({ id }) => id}
          empty="None runs now. One starts when a job arrives."
          columns={[
            { title: 'ID', isId: true, cell: ({ id }) => <WorkerLink endpoint={endpoint} id={id} /> },
            { title: 'State', cell: ({ node, state }) => <WorkerStateOn node={node} state={state} /> },
            { title: 'Node', cell: ({ node }) => <NodeLink id={node} /> },
            { title: 'Jobs', isNumber: true, cell: ({ jobs, maxConcurrency }) => `${jobs} of ${maxConcurrency}` },
            { title: 'GPUs', cell: ({ node, devices }) => <DeviceLinks node={node} devices={devices} /> },
            {
              title: 'Start',
              cell: ({ start }) =>
                start.loadedMs === 0
                  ? '–'
                  : `${duration(start.loadedMs)} (files ${duration(start.artifactMs)}, process ${duration(start.startedMs)})`,
            },
            { title: 'Why', cell: ({ detail, reason, decision }) => <Text of={detail ?? reason ?? decision} /> },
          ]}
        />
      </Section>
      {scaling.rejections.length > 0 && (
        <Section title="Why no node is eligible">
          <Table
            label="Reasons of nodes"
            rows={scaling.rejections}
            id={({ reason }) => reason}
            empty=""
            columns={[
              { title: 'Reason', cell: ({ reason }) => <Badge state={reason} /> },
              { title: 'Nodes', isNumber: true, cell: ({ nodes }) => nodes },
              {
                title: 'Examples',
                cell: ({ examples }) => <Text of={examples.map(({ node, detail }) => `${node}: ${detail}`).join('; ')} />,
              },
            ]}
          />
        </Section>
      )}
      {decisions.length > 0 && (
        <Section title="Scaling decisions">
          <Table
            label="Scaling decisions"
            rows={decisions.map((each, index) => ({ ...each, index }))}
            id={({ index }) => String(index)}
            empty=""
            columns={[
              { title: 'Time', cell: ({ at }) => time(at) },
              { title: 'Decision', cell: ({ kind }) => <Text of={kind} /> },
              { title: 'Worker', cell: ({ worker }) => (worker === null ? '–' : <WorkerLink endpoint={endpoint} id={worker} />) },
              { title: 'Node', cell: ({ node }) => <NodeLink id={node} /> },
              { title: 'Reason', cell: ({ reason }) => <Text of={reason} /> },
            ]}
          />
        </Section>
      )}
    </>
  );
}
