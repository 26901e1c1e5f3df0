import type { JSX } from 'preact';
import { useId, useState } from 'preact/hooks';

import { GET_SETTINGS, UPDATE_SETTINGS, type EndpointSettings } from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { ApiError, graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { ActionButton, ConfirmButton, Failure, Facts, Loaded, Section, Text } from '../../ui/parts.tsx';
import { useUnsavedWarning } from '../../ui/unsaved.ts';
import type { EndpointData } from './query.ts';
import { choicesOf, plainType, readSchema, shown, valuesOf, type Field, type Schema, type Value, type Values } from './setting-names.ts';

export function SettingsForm({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const query = useLive(
    ['settings', endpoint.id],
    async (signal) => {
      const schema = await readSchema(signal);
      const read = await graphql(GET_SETTINGS, { id: endpoint.id }, signal);
      return { schema, settings: valuesOf(read.endpoint?.settings) };
    },
    false,
  );
  return (
    <>
      <Loaded query={query}>{({ schema, settings }) => <Editor endpoint={endpoint.id} schema={schema} settings={settings} />}</Loaded>
      <Environment endpoint={endpoint} />
    </>
  );
}

function Editor({ endpoint, schema, settings }: { endpoint: string; schema: Schema; settings: Values }): JSX.Element {
  const refusal = useWriteRefusal();
  const [changed, setChanged] = useState<Values>({});
  const save = useAction((values: Values) =>
    graphql(UPDATE_SETTINGS, {
      id: endpoint,
      settings: values,
    }).then(() => setChanged({})),
  );
  const readable = new Map(schema.all.fields.map(({ name, type }) => [name, plainType(type)]));
  const fields = schema.changeable.inputFields.filter(
    ({ name, type }) => isEditable(plainType(type)) && readable.get(name) === plainType(type),
  );
  const others = schema.all.fields.filter(({ name }) => !fields.some((each) => each.name === name));
  const wrongField = save.error instanceof ApiError ? save.error.field : undefined;
  const count = Object.keys(changed).length;
  useUnsavedWarning(count > 0);
  return (
    <form
      class="panel"
      onSubmit={(event) => {
        event.preventDefault();
        if (refusal === undefined && count > 0) save.mutate(changed);
      }}
    >
      <div class="settings">
        {fields.map((field) => (
          <SettingField
            key={field.name}
            field={field}
            value={changed[field.name] ?? settings[field.name] ?? null}
            isChanged={field.name in changed}
            problem={wrongField === field.name ? save.error?.message : undefined}
            isDisabled={refusal !== undefined}
            onChange={(value) => setChanged({ ...changed, [field.name]: value })}
          />
        ))}
      </div>
      {changed['public'] === true && (
        <p class="failure" role="alert">
          Callers need no key once this is saved: everyone who can reach the gateway runs this endpoint's code, at this account's cost. Its
          application must check its callers itself.
        </p>
      )}
      {wrongField === undefined && <Failure error={save.error} />}
      {save.isSuccess && count === 0 && <p role="status">Saved.</p>}
      <div class="actions">
        <ActionButton
          tone="primary"
          refusal={refusal ?? (count === 0 ? 'Nothing is changed.' : undefined)}
          isBusy={save.isPending}
          onClick={() => save.mutate(changed)}
        >
          Save {count > 0 ? `${count} changes` : ''}
        </ActionButton>
        <button type="button" disabled={count === 0} onClick={() => setChanged({})}>
          Discard
        </button>
      </div>
      <Section title="Set by deployments">
        <Facts of={others.map(({ name }) => [name, <Text of={shown(settings[name] ?? null) || '–'} key={name} />])} />
      </Section>
    </form>
  );
}

function isEditable(type: string): boolean {
  return ['Int', 'String', 'Boolean', 'list'].includes(type);
}

interface FieldProps {
  readonly field: Field;
  readonly value: Value;
  readonly isChanged: boolean;
  readonly problem: string | undefined;
  readonly isDisabled: boolean;
  readonly onChange: (value: Value) => void;
}

function SettingField({ field, value, isChanged, problem, isDisabled, onChange }: FieldProps): JSX.Element {
  const id = useId();
  const type = plainType(field.type);
  const choices = choicesOf(field.name);
  const common = { id, disabled: isDisabled, 'aria-describedby': `${id}-help`, 'aria-invalid': problem !== undefined };
  return (
    <div class={isChanged ? 'changed' : ''}>
      <label for={id}>{field.name}</label>
      {type === 'Boolean' ? (
        <input {...common} type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
      ) : choices !== undefined ? (
        <select {...common} value={shown(value)} onChange={(event) => onChange(event.currentTarget.value)}>
          {[...new Set([shown(value), ...choices])].map((each) => (
            <option key={each} value={each}>
              {each === '' ? 'not set' : each}
            </option>
          ))}
        </select>
      ) : type === 'Int' ? (
        <input
          {...common}
          type="number"
          value={typeof value === 'number' ? value : ''}
          onInput={(event) => onChange(Number.isNaN(event.currentTarget.valueAsNumber) ? 0 : event.currentTarget.valueAsNumber)}
        />
      ) : (
        <input
          {...common}
          type="text"
          value={shown(value)}
          onInput={(event) => {
            const text = event.currentTarget.value;
            onChange(
              type === 'list'
                ? text
                    .split(',')
                    .map((each) => each.trim())
                    .filter((each) => each !== '')
                : text,
            );
          }}
        />
      )}
      {problem !== undefined && (
        <p class="failure" role="alert">
          <Text of={problem} />
        </p>
      )}
      <p id={`${id}-help`} class="muted">
        {field.description?.replaceAll('`', '')}
      </p>
    </div>
  );
}

/** Environment values: their names only, because the values are secret. */
function Environment({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const save = useAction((settings: EndpointSettings) =>
    graphql(UPDATE_SETTINGS, {
      id: endpoint.id,
      settings,
    }).then(() => {
      setName('');
      setValue('');
    }),
  );
  return (
    <Section title="Environment variables">
      <p class="muted">Values are secret and cannot be read again. A change replaces the workers.</p>
      <ul class="plain">
        {endpoint.envNames.map((each) => (
          <li key={each}>
            <code>
              <Text of={each} />
            </code>{' '}
            <ConfirmButton
              label="Remove"
              explain={
                <p>
                  <Text of={each} /> is removed, and workers are replaced by ones without it.
                </p>
              }
              refusal={refusal}
              isBusy={save.isPending}
              onConfirm={() => save.mutate({ unsetEnv: [each] })}
            />
          </li>
        ))}
      </ul>
      <div class="fields">
        <div>
          <label for="env-name">Name</label>
          <input id="env-name" value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <div>
          <label for="env-value">Value</label>
          <input id="env-value" type="password" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        </div>
        <ActionButton
          refusal={refusal ?? (name === '' ? 'Enter a name.' : undefined)}
          isBusy={save.isPending}
          onClick={() => save.mutate({ env: { [name]: value } })}
        >
          Set
        </ActionButton>
      </div>
      <Failure error={save.error} />
    </Section>
  );
}
