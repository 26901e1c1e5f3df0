import { endpoint } from '@capstan/sdk';
import express from 'express';

const app = express();
app.use(express.json());

app.get('/', (_request, response) => {
  response.json({ framework: 'Express' });
});

app.post('/sum', (request, response) => {
  response.json({ sum: request.body.numbers.reduce((sum, each) => sum + each, 0) });
});

export default endpoint({ name: 'express', app });
