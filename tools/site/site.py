#!/usr/bin/env python3
"""docs/ and the README as a searchable site, by MkDocs with Material's theme.

usage: site.py SOURCE_ROOT OUT

docs/README.md is the navigation: its headings are the sections, the links in
its tables the pages. Files and folders of the tree that a document links to
become plain pages under source/. All links are relative, and no page fetches
anything from a network: OUT can be read from a disk or put on any server.

What MkDocs reads is written to OUT.work.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CONTENTS = 'docs/README.md'
LINK = re.compile(r'(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))')
TITLED = re.compile(r'\[([^]]+)\]\(([^)#]+)\)')
FILE_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>:root {{ color-scheme: light dark }} body {{ font: 16px sans-serif }}
pre {{ font: 13px/1.45 monospace; white-space: pre-wrap;
overflow-wrap: anywhere }}</style></head>
<body><p><a href="{up}index.html">Doorbell</a> / {title}</p>
<pre>{text}</pre></body></html>
"""
CONFIG = """INHERIT: {settings}
docs_dir: {docs}
site_dir: {out}
theme:
  custom_dir: {theme}
nav: {nav}
"""


class Stop(Exception):
    """Why there is no site."""


def page_of(document):
    """The name of a document among the site's."""
    if document == 'README.md':
        return 'index.md'
    if document == CONTENTS:
        return 'contents.md'
    return document[len('docs/'):]


class Site:
    def __init__(self, root, out):
        self.root, self.out = os.path.abspath(root), os.path.abspath(out)
        self.work = self.out + '.work'
        self.documents = ['README.md'] + sorted(
            os.path.relpath(os.path.join(folder, name), self.root)
            for folder, _, names in os.walk(os.path.join(self.root, 'docs'))
            for name in names if name.endswith('.md'))
        self.linked = set()

    def read(self, name):
        with open(os.path.join(self.root, name), encoding='utf-8') as file:
            return file.read()

    def write(self, name, text):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)

    def navigation(self):
        """As mkdocs.yml has it: [{title: page or list of such}]."""
        sections, listed = [], {'README.md', CONTENTS}
        for line in self.read(CONTENTS).split('\n'):
            if line.startswith('## '):
                sections.append((line[3:].split(':')[0], []))
            pages = [(title, 'docs/' + target)
                     for title, target in TITLED.findall(line)
                     if line.startswith('|') and target.endswith('.md')]
            listed.update(page for _, page in pages)
            rows = [{title: page_of(page)} for title, page in pages]
            if len(rows) > 1: # a part with pages of its own
                rows = [{pages[0][0]: [
                    {title[0].upper() + title[1:]: page_of(page)}
                    for title, page in [('overview', pages[0][1]),
                                        *pages[1:]]]}]
            if rows:
                sections[-1][1].extend(rows)
        missing = sorted(set(self.documents) ^ listed)
        if missing:
            raise Stop(f'{CONTENTS} and the documents differ in ' +
                       ', '.join(missing))
        return [{'Doorbell': [{'README': 'index.md'},
                              {'All pages': 'contents.md'}]},
                *({head: rows} for head, rows in sections)]

    def target_of(self, document, target):
        """What the site has for a link of a document."""
        path = os.path.normpath(os.path.join(os.path.dirname(document),
                                             target))
        if path in self.documents:
            return page_of(path)
        full = os.path.join(self.root, path)
        if not os.path.exists(full):
            raise Stop(f'{document}: {target}: no such file')
        if os.path.splitext(path)[1] in ('.svg', '.png'):
            copy = os.path.join(self.work, 'docs', path)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(full, copy)
            return path
        self.linked.add(path)
        return f'source/{path}.html'

    def markdown_of(self, document):
        """A document with the links of its page, as Python's Markdown takes
        it: no file names at blocks of code, four spaces below an item."""
        here = os.path.dirname(page_of(document))
        in_code, after_blank, lines = False, True, []
        for line in self.read(document).split('\n'):
            if line.startswith('```'):
                in_code = not in_code
                line = line.split(' ')[0]
            elif not in_code:
                line = LINK.sub(lambda match: os.path.relpath(
                    self.target_of(document, match[1]), here or '.') +
                    (match[2] or ''), line)
                if after_blank:
                    line = re.sub(r'^ {2,3}(?=\S)', '    ', line)
            after_blank = not line.strip()
            lines.append(line)
        return '\n'.join(lines)

    def write_linked(self, path):
        full = os.path.join(self.root, path)
        if os.path.isdir(full):
            text = '\n'.join(sorted(os.listdir(full)))
        else:
            text = self.read(path)
        self.write(f'docs/source/{path}.html', FILE_PAGE.format(
            title=html.escape(path), text=html.escape(text),
            up='../' * (path.count('/') + 1)))

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        for document in self.documents:
            self.write('docs/' + page_of(document), self.markdown_of(document))
        for path in sorted(self.linked):
            self.write_linked(path)
        for name in 'site.css', 'search.js':
            shutil.copyfile(os.path.join(HERE, name),
                            os.path.join(self.work, 'docs', name))
        self.write('mkdocs.yml', CONFIG.format(
            settings=json.dumps(os.path.join(HERE, 'mkdocs.yml')),
            docs=json.dumps(os.path.join(self.work, 'docs')),
            out=json.dumps(self.out), nav=json.dumps(self.navigation()),
            theme=json.dumps(os.path.join(HERE, 'theme'))))

    def build(self):
        done = subprocess.run(
            ['mkdocs', 'build', '--quiet', '--strict', '--clean',
             '--config-file', os.path.join(self.work, 'mkdocs.yml')],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        if done.returncode:
            raise Stop(done.stdout)

    def finish(self):
        """The index as a script; nothing that needs the site's address."""
        with open(os.path.join(self.out, 'search/search_index.json'),
                  encoding='utf-8') as file:
            index = file.read()
        with open(os.path.join(self.out, 'search/search_index.js'), 'w',
                  encoding='utf-8') as file:
            file.write(f'searchIndex({index});\n')
        for name in '404.html', 'sitemap.xml', 'sitemap.xml.gz':
            if os.path.exists(os.path.join(self.out, name)):
                os.remove(os.path.join(self.out, name))

    def make(self):
        self.prepare()
        self.build()
        self.finish()


def main():
    if shutil.which('mkdocs') is None:
        sys.exit('site.py: the site needs MkDocs and its theme Material '
                 '(Debian: apt-get install mkdocs mkdocs-material)')
    try:
        Site(*sys.argv[1:3]).make()
    except Stop as stop:
        sys.exit(f'site.py: {stop}')
    print(os.path.join(os.path.abspath(sys.argv[2]), 'index.html'))


if __name__ == '__main__':
    main()
