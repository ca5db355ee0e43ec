#!/usr/bin/env python3
"""docs/new-accelerator.md, followed to the letter in a copy of the tree and of
its build, makes a device that runs tensor programs.

usage: test_new_accelerator.py SOURCE_ROOT BUILD_ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile

import guide
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "structure"))
from common import Tap  # noqa: E402

SOURCE, BUILD = (os.path.realpath(path) for path in sys.argv[1:3])
# What of the build the document's targets are made of.
TESTS = ('cts', 'libtest_locks.a', 'libtest_locks.a.p')


def is_left_out(folder, name):
    if folder == SOURCE:
        return name == '.git' or name.startswith('build')
    if folder == os.path.join(BUILD, 'tests'):
        return name not in TESTS
    return folder == BUILD and name in ('meson-logs', 'compile_commands.json')


def copy(root):
    """The tree and its build; ninja then makes anew what the document changes
    alone."""
    def ignore(folder, names):
        return [name for name in names if is_left_out(folder, name)]

    shutil.copytree(SOURCE, root, ignore=ignore, symlinks=True,
                    dirs_exist_ok=True)
    build = os.path.join(root, os.path.relpath(BUILD, SOURCE))
    shutil.copytree(BUILD, build, ignore=ignore, symlinks=True)
    subprocess.run(['meson', 'setup', '--reconfigure', build, root],
                   stdout=subprocess.DEVNULL, check=True)
    if not os.path.exists(f'{root}/build'):
        os.symlink(os.path.relpath(build, root), f'{root}/build')


def main():
    tap = Tap()
    if os.path.relpath(BUILD, SOURCE).startswith('..'):
        print('1..0 # SKIP the build is not in a folder of the tree')
        sys.exit(77)
    root = tempfile.mkdtemp()
    copy(root)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(('BELL_', 'MESON_'))}
    # git's own look-up ends here: the copy is no part of another repository
    environment.update(GIT_CEILING_DIRECTORIES=os.path.dirname(root),
                       BELL_CACHE='off')
    complaints = []
    try:
        guide.follow(os.path.join(SOURCE, 'docs/new-accelerator.md'), root,
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
