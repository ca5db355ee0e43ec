#!/usr/bin/env python3
"""The site that is made of docs/, and the API reference: every link leads to a
page that is there and to a place in it; doxygen has nothing to warn of.

usage: test_site.py SOURCE_ROOT BUILD_ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

SOURCE, BUILD = sys.argv[1:3]


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places, self.pieces = [], set(), 0
        with open(path, encoding='utf-8') as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places.add(attrs.get('id'))
        self.pieces += tag in ('p', 'pre', 'table', 'ul')
        for name in ('href', 'src'):
            if attrs.get(name):
                self.links.append(attrs[name])


def link_complaints(root):
    pages = {}
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith('.html'):
                path = os.path.join(folder, name)
                pages[path] = Page(path)
    for path, page in sorted(pages.items()):
        here = os.path.relpath(path, root)
        if page.pieces < 1:
            yield f'{here} is empty'
        for link in page.links:
            if re.match(r'\w+:', link):
                continue
            target, _, place = link.partition('#')
            full = os.path.normpath(os.path.join(
                os.path.dirname(path), target)) if target else path
            if not os.path.exists(full):
                yield f'{here}: {link}: no such page'
            elif place and full in pages and place not in pages[full].places:
                yield f'{here}: {link}: no such place'


def site_complaints(root):
    out = os.path.join(root, 'site')
    done = subprocess.run(
        [sys.executable, os.path.join(SOURCE, 'tools/site.py'), SOURCE, out],
        capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.split('\n')
    n = sum(name.endswith('.md') for _, _, names in
            os.walk(os.path.join(SOURCE, 'docs')) for name in names)
    made = sum(name.endswith('.html') for folder, _, names in os.walk(out)
               if '/source' not in folder for name in names)
    few = [] if made == n + 1 else [f'{made} pages of {n} documents']
    return few + list(link_complaints(out))


def api_complaints(root):
    with open(os.path.join(BUILD, 'docs/Doxyfile'), encoding='utf-8') as file:
        text = file.read()
    done = subprocess.run(
        ['doxygen', '-'], input=f'{text}\nOUTPUT_DIRECTORY = {root}\n',
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    complaints = [line for line in done.stdout.split('\n') if line]
    if done.returncode:
        complaints.append(f'exit code {done.returncode}')
    for name, part in (('index.html', 'hcq.h'), ('hcq_8h.html', 'hcq_cs_exec'),
                       ('ops_8h.html', 'bell_matmul')):
        with open(os.path.join(root, 'api', name), encoding='utf-8') as file:
            if part not in file.read():
                complaints.append(f'{name} lacks {part}')
    return complaints


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run([sys.executable, '-c', 'import markdown'],
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode:
            tap.skip('the site', 'no python3-markdown')
        else:
            tap.check('the site', site_complaints(root))
        if (shutil.which('doxygen') is None or
                not os.path.exists(os.path.join(BUILD, 'docs/Doxyfile'))):
            tap.skip('the API reference', 'configured without doxygen')
        else:
            tap.check('the API reference', api_complaints(root))
    tap.finish()


if __name__ == '__main__':
    main()
