"""Runs array-api-tests, the suite of the Array API's authors, on doorbell.xp.

usage: array_api.py SUITE [ARGUMENT OF PYTEST ...]

SUITE is a clone of github.com/data-apis/array-api-tests, release 2026.02.26,
with its submodule array-api. Python needs what its requirements.txt lists, and
the package on PYTHONPATH. Tests that need complex numbers are left out:
array_api_skips.txt has their names, array_api_plugin.py the special cases.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    suite = sys.argv[1]
    path = [os.path.abspath(part) if part else part for part in
            os.environ.get('PYTHONPATH', '').split(os.pathsep)]
    os.environ.update(ARRAY_API_TESTS_MODULE='doorbell.xp',
                      ARRAY_API_TESTS_VERSION='2024.12',
                      ARRAY_API_TESTS_SKIP_DTYPES='complex64,complex128',
                      PYTHONPATH=os.pathsep.join([*path, HERE]),
                      PYTHONDONTWRITEBYTECODE='1')
    os.environ.setdefault('BELL_CACHE', 'off')
    os.chdir(suite)
    rest = sys.argv[2:]
    if not any(not a.startswith('-') and os.path.exists(a.split('::')[0])
               for a in rest):
        rest.append('array_api_tests')
    os.execv(sys.executable, [
        sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider',
        '-p', 'array_api_plugin', '--hypothesis-disable-deadline', '--skips-file',
        os.path.join(HERE, 'array_api_skips.txt'), *rest])


if __name__ == '__main__':
    main()
