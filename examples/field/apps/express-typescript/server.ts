/** A list of to-dos: pages from a folder, an API beside them, and its own listening. Built by tsc. */
import express, { type Request, type Response } from 'express';

interface Todo {
  readonly id: number;
  readonly text: string;
}

const todos: Todo[] = [];
const app = express();
app.use(express.json());
app.use(express.static('public'));
app.get('/api/todos', (_request: Request, response: Response) => void response.json(todos));
app.post('/api/todos', (request: Request, response: Response) => {
  todos.push({ id: todos.length + 1, text: String(request.body.text) });
  response.status(201).json(todos.at(-1));
});
app.listen(Number(process.env['PORT'] ?? 3000));
