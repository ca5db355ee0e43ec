"""A page in headless Chromium, over the pipe of its debugging protocol.

src: chromedevtools.github.io/devtools-protocol (Page, Runtime, Log, Emulation);
messages on descriptors 3 and 4 end with a zero.
"""
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """Closes with the `with` that it is made in."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True)
        there, self.to = os.pipe()
        self.back, here = os.pipe()
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ['sh', '-c', f'exec "$0" "$@" 3<&{there} 4>&{here}', program,
             '--headless=new', '--no-sandbox', '--disable-gpu',
             '--disable-dev-shm-usage', '--no-first-run',
             '--remote-debugging-pipe', '--hide-scrollbars',
             f'--user-data-dir={self.profile.name}', 'about:blank'],
            pass_fds=(there, here), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(there)
        os.close(here)
        self.buffer = b''
        self.n_calls = 0
        self.session = None
        self.complaints = []
        target = self.call('Target.createTarget', url='about:blank')
        self.session = self.call('Target.attachToTarget', flatten=True,
                                 targetId=target['targetId'])['sessionId']
        for domain in 'Page', 'Runtime', 'Log':
            self.call(domain + '.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)
        os.close(self.back)
        # its children write to the profile, too
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.profile.cleanup()

    def receive(self):
        while b'\0' not in self.buffer:
            part = os.read(self.back, 1 << 20)
            if not part:
                raise OSError('the browser has ended')
            self.buffer += part
        text, self.buffer = self.buffer.split(b'\0', 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        """What a console would show as an error."""
        method, params = message.get('method'), message.get('params', {})
        if method == 'Runtime.exceptionThrown':
            self.complaints.append(
                json.dumps(params['exceptionDetails'])[:500])
        elif method == 'Log.entryAdded' and (
                params['entry']['level'] in ('error', 'warning')):
            self.complaints.append(params['entry']['text'])
        elif method == 'Runtime.consoleAPICalled' and (
                params['type'] in ('error', 'assert', 'warning')):
            self.complaints.append(json.dumps(params['args'])[:500])

    def call(self, method, **params):
        self.n_calls += 1
        message = {'id': self.n_calls, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.receive()
            if answer.get('id') == message['id']:
                if 'error' in answer:
                    raise OSError(f'{method}: {answer["error"]}')
                return answer['result']

    def open(self, path, width, height, dark=False):
        """A file, or an address with its scheme."""
        self.call('Emulation.setDeviceMetricsOverride', width=width,
                  height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme',
             'value': 'dark' if dark else 'light'}])
        if '://' not in path:
            path = 'file://' + os.path.abspath(path)
        self.call('Page.navigate', url=path)
        self.wait_for_page()

    def wait_for_page(self):
        while self.receive().get('method') != 'Page.loadEventFired':
            pass

    def follow(self, expression):
        """A click that leads to another page, until that is there."""
        self.call('Runtime.evaluate',
                  expression=f'setTimeout(() => {{ {expression} }})')
        self.wait_for_page()

    def value(self, expression):
        return self.call('Runtime.evaluate', expression=expression,
                         returnByValue=True)['result'].get('value')

    def screenshot(self, path, is_whole=True):
        image = self.call('Page.captureScreenshot', format='png',
                          captureBeyondViewport=is_whole)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(image['data']))

    def print_pages(self):
        """Bytes of the page as paper."""
        return base64.b64decode(self.call('Page.printToPDF')['data'])
