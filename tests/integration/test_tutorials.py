#!/usr/bin/env python3
"""Tutorials, followed to the letter: what they tell to type works, and prints
what they say.

usage: test_tutorials.py DOORBELL SOURCE_ROOT BUILD_ROOT
"""
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import guide
from cli import DOORBELL, Tap

SOURCE, BUILD = sys.argv[2:4]
PAGES = ('appliance', 'bring-up', 'measure', 'read-a-trace', 'send')


def complaints_of(page, installed):
    tools = os.path.dirname(os.path.abspath(DOORBELL))
    environment = dict(
        os.environ,
        PATH=f'{tools}:{os.environ["PATH"]}',
        PKG_CONFIG_SYSROOT_DIR=installed,
        PKG_CONFIG_PATH=next(folder for folder, _, files in os.walk(installed)
                             if 'doorbell.pc' in files))
    with tempfile.TemporaryDirectory() as folder:
        try:
            n = guide.follow(f'{SOURCE}/docs/tutorials/{page}.md', folder,
                             environment)
        except guide.Broken as broken:
            return str(broken).split('\n')
    return [] if n >= 5 else [f'{n} blocks']


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(2) as pool:
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild',
                        '--quiet', '--destdir', root], check=True)
        done = pool.map(lambda page: complaints_of(page, root), PAGES)
        for page, complaints in zip(PAGES, done):
            tap.check(page, complaints)
    tap.finish()


if __name__ == '__main__':
    main()
