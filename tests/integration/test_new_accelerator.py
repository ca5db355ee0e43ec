#!/usr/bin/env python3
"""docs/how-to/new-accelerator.md, followed to the letter in a copy of the tree and
of its build, makes a device that runs tensor programs.

usage: test_new_accelerator.py SOURCE_ROOT BUILD_ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile

import guide
from tree_copy import copy
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'structure'))
from common import Tap  # noqa: E402

SOURCE, BUILD = sys.argv[1:3]
# What of the build the document's targets are made of.
TESTS = ('cts', 'libtest_locks.a', 'libtest_locks.a.p')


def main():
    tap = Tap()
    root = tempfile.mkdtemp()
    build = copy(SOURCE, BUILD, root, TESTS)
    if build is None:
        print('1..0 # SKIP the build is not in a folder of the tree')
        sys.exit(77)
    if not os.path.exists(f'{root}/build'):
        os.symlink(build, f'{root}/build')
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(('BELL_', 'MESON_'))}
    # git's own look-up ends here: the copy is no part of another repository
    environment.update(GIT_CEILING_DIRECTORIES=os.path.dirname(root),
                       BELL_CACHE='off')
    complaints = []
    try:
        guide.follow(os.path.join(
            SOURCE, 'docs/how-to/new-accelerator.md'), root,
                     environment)
    except guide.Broken as broken:
        complaints = str(broken).split('\n')
    tap.check('the guide makes a device', complaints)
    if not complaints:
        done = subprocess.run(
            [sys.executable, f'{root}/tests/structure/test_includes.py', root],
            capture_output=True, text=True, check=False)
        tap.check('its parts know whom they may know', [
            line for line in done.stdout.split('\n') if line.startswith('#')])
    shutil.rmtree(root)
    tap.finish()


if __name__ == '__main__':
    main()
