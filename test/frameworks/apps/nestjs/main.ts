import 'reflect-metadata';

import { Controller, Get, Module, Param, Post, Query, Redirect, Req, Res, UploadedFile, UseInterceptors } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FileInterceptor } from '@nestjs/platform-express';
import express from 'express';

@Controller()
class Shop {
  @Get()
  home(): object {
    return { home: true };
  }

  @Get('items/:number')
  item(@Param('number') number: string, @Query('q') q = ''): object {
    return { number: Number(number), q };
  }

  @Get('go')
  @Redirect('/items/1')
  go(): void {}

  @Get('cookie')
  cookie(@Res({ passthrough: true }) response: express.Response): object {
    response.cookie('seen', 'yes');
    return {};
  }

  @Get('cookies')
  cookies(@Req() request: express.Request): object {
    const pairs = (request.headers.cookie ?? '').split('; ').filter(Boolean);
    return Object.fromEntries(pairs.map((pair) => pair.split('=')));
  }

  @Post('upload')
  @UseInterceptors(FileInterceptor('file'))
  upload(@UploadedFile() file: Express.Multer.File, @Res() response: express.Response): void {
    response.status(200).json({ name: file.originalname, size: file.size });
  }

  @Get('stream')
  stream(@Res() response: express.Response): void {
    for (let number = 0; number < 3; number += 1) response.write(`${number}\n`);
    response.end();
  }
}

@Module({ controllers: [Shop] })
class Application {}

const app = await NestFactory.create(Application);
app.use('/static', express.static('static'));
await app.listen(Number(process.env.PORT), process.env.CAPSTAN_HOST ?? '127.0.0.1');
