document.forms[0].onsubmit = async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ text: event.target.text.value });
  await fetch('api/todos', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const todos = await (await fetch('api/todos')).json();
  document
    .querySelector('ul')
    .replaceChildren(...todos.map(({ text }) => Object.assign(document.createElement('li'), { textContent: text })));
};
