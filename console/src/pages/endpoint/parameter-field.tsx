import type { JSX } from 'preact';
import { useId } from 'preact/hooks';

import { Text } from '../../ui/parts.tsx';
import { visible } from '../../ui/plain-text.ts';
import { choicesOf, descriptionOf, fieldText, fieldValue, type Parameter } from './parameters.ts';

interface ParameterFieldProps {
  readonly parameter: Parameter;
  readonly value: unknown;
  /** Undefined: the key is left out. */
  readonly onChange: (value: unknown) => void;
}

/** One key of the input: a list where its values are known, else text. */
export function ParameterField({ parameter, value, onChange }: ParameterFieldProps): JSX.Element {
  const id = useId();
  const { name, required, type } = parameter;
  const choices = choicesOf(parameter);
  const description = descriptionOf(parameter);
  const help = description === '' ? {} : { 'aria-describedby': `${id}-help` };
  return (
    <div>
      <label for={id}>
        <Text of={`${name}${required ? '' : ' (optional)'}${type === null ? '' : `: ${type}`}`} />
      </label>
      {choices === undefined ? (
        <input
          {...help}
          id={id}
          inputMode={type === 'integer' ? 'numeric' : type === 'number' ? 'decimal' : 'text'}
          value={fieldText(value)}
          onInput={({ currentTarget: { value: text } }) => onChange(text === '' && !required ? undefined : fieldValue(text, parameter))}
        />
      ) : (
        <select
          {...help}
          id={id}
          value={String(choices.findIndex((each) => each === value))}
          onChange={({ currentTarget }) => onChange(choices[Number(currentTarget.value)])}
        >
          <option value="-1">{required ? 'choose' : 'left out'}</option>
          {choices.map((each, index) => (
            <option key={index} value={String(index)}>
              {visible(fieldText(each))}
            </option>
          ))}
        </select>
      )}
      {description !== '' && (
        <p id={`${id}-help`} class="muted">
          <Text of={description} />
        </p>
      )}
    </div>
  );
}
