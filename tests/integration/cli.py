"""Running `doorbell` and judging what came of it; shared by the tests here.

The program's path is the test's first argument.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402, F401  pylint: disable=unused-import

DOORBELL = sys.argv[1]
for name in ('BELL_DEVICE', 'BELL_DEBUG', 'BELL_FAIL_ALLOC',
             'BELL_MATH'):
    os.environ.pop(name, None)
os.environ['BELL_CACHE'] = 'off'


def data_dir(name):
    """Directory of real data, or None: $BELL_TEST_DATA, ../shared/data."""
    beside = os.path.join(HERE, '..', '..', '..', 'shared', 'data')
    path = os.path.join(os.environ.get('BELL_TEST_DATA', beside), name)
    return path if os.path.isdir(path) else None


def run(*args, timeout=600, **environment):
    return subprocess.run([DOORBELL, *args], capture_output=True, text=True,
                          env=dict(os.environ, **environment),
                          timeout=timeout, stdin=subprocess.DEVNULL,
                          check=False)


def expect(done, code, *, out='', err=''):
    """Complaints about a finished run; out and err are parts expected."""
    complaints = []
    if done.returncode != code:
        complaints.append(f'exit code {done.returncode}, not {code}')
    if out not in done.stdout:
        complaints.append(f'stdout lacks "{out}"')
    if err not in done.stderr:
        complaints.append(f'stderr lacks "{err}"')
    if complaints:
        complaints += (done.stdout + done.stderr).splitlines()[-20:]
    return complaints


def expect_json_error(done, code, part):
    """Failures with --json leave exactly one document on stdout."""
    complaints = expect(done, code)
    try:
        error = json.loads(done.stdout)['error']
        if part not in error['message']:
            complaints.append(f'message "{error["message"]}" lacks "{part}"')
        if error['exit_code'] != code:
            complaints.append(f'exit_code {error["exit_code"]}, not {code}')
        if error['errno'] and error['errno'] not in error['message'] and (
                error['status'] != 'out of memory'):
            complaints.append(f'errno is {error["errno"]}')
        if code == 2 and error['status'] != 'invalid argument':
            complaints.append(f'status is {error["status"]}')
    except (ValueError, KeyError) as reason:
        complaints.append(f'no error document: {reason}: {done.stdout}')
    return complaints


def schema_complaints(name, text):
    """Where a document is not as docs/schemas/NAME.json says; nothing without
    jsonschema (PyPI, Debian's python3-jsonschema)."""
    try:
        document = json.loads(text)
    except ValueError as reason:
        return [f'no document: {reason}: {text[:200]}']
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError:
        return []
    path = os.path.join(HERE, '..', '..', 'docs', 'schemas', name + '.json')
    with open(path, encoding='utf-8') as file:
        schema = json.load(file)
    return [f'{name}: {error.json_path}: {error.message}'
            for error in jsonschema.Draft202012Validator(schema).iter_errors(
                document)]
