#!/usr/bin/env python3
"""C sources are as clang-format 14 leaves them.

usage: test_format.py SOURCE_ROOT
"""
import shutil
import subprocess
import sys

from common import Tap, sources


def main():
    root = sys.argv[1]
    tap = Tap()
    tool = shutil.which('clang-format-14')
    if tool is None:
        tap.skip('format', 'no clang-format-14')
    else:
        # ops.def is a table; its rows are longer than a line.
        done = subprocess.run(
            [tool, '--dry-run', '--Werror', '--style=file'] + sources(root),
            cwd=root, capture_output=True, text=True, check=False)
        wrong = sorted({line.split(':')[0] for line in done.stderr.split('\n')
                        if ' error: ' in line})
        tap.check('format', [f'{p} is not as clang-format leaves it'
                             for p in wrong])
    tap.finish()


if __name__ == '__main__':
    main()
