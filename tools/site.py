#!/usr/bin/env python3
"""docs/ and the README as pages for a browser, with python3-markdown.

usage: site.py SOURCE_ROOT OUT

Links between documents become links between pages; what of the tree a document
names is shown as text beside them. Pictures are copied. Everything is relative: the folder can be
read from a disk or put on any server.
"""
import html
import os
import re
import shutil
import sys

import markdown
from markdown.extensions.toc import TocExtension

STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; --code: #8881 }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 76rem;
  display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 2rem;
  padding: 1rem }
nav { font-size: 0.9rem } nav h2 { font-size: 1rem; margin: 1em 0 0.2em }
nav ul { list-style: none; margin: 0; padding: 0 }
nav a { text-decoration: none } nav [aria-current] { font-weight: bold }
main { overflow-wrap: break-word } img { max-width: 100% }
pre, code { font: 0.875em/1.45 ui-monospace, monospace; background: var(--code) }
pre { padding: 0.7em; overflow-x: auto; border: 1px solid var(--line) }
pre code { background: none; font-size: inherit }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid var(--line); padding: 0.3em 0.6em; vertical-align: top }
.output { color: var(--dim) }
@media (max-width: 50rem) { body { display: flex; flex-direction: column }
  nav { columns: 2; order: 1 } }
@media print { nav { display: none } body { display: block } }
"""
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="{up}style.css"></head>
<body><nav>{nav}</nav><main>
{body}
</main></body></html>
"""
# What the navigation calls a folder of docs/.
SECTIONS = (('Tutorials', 'tutorials'), ('How to', 'how-to'),
            ('Reference', 'reference'), ('Explanation', 'explanation'))
IMAGE = re.compile(r'(<img [^>]*src=")([^":]+)"')
LINK = re.compile(r'(<a href=")([^":#]+)(#[^"]*)?"')


def slug(text, separator):
    """As GitHub's anchors, which the documents use."""
    return re.sub(r'[^\w\- ]', '', text.lower()).replace(' ', separator)


class Site:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.sources = set()
        names = ['README.md', 'docs/README.md'] + [
            os.path.relpath(os.path.join(folder, name), root)
            for head, part in SECTIONS
            for folder, _, files in sorted(os.walk(
                os.path.join(root, 'docs', part)))
            for name in sorted(files) if name.endswith('.md')]
        self.pages = {name: self.page_of(name) for name in names}
        self.titles = {name: self.title_of(name) for name in names}

    @staticmethod
    def page_of(name):
        if name == 'README.md':
            return 'index.html'
        if name == 'docs/README.md':
            return 'contents.html'
        return re.sub(r'^docs/', '', name)[:-len('.md')] + '.html'

    @staticmethod
    def section_of(name):
        parts = name.split('/')
        return parts[1] if len(parts) > 2 else None

    def read(self, name):
        with open(os.path.join(self.root, name), encoding='utf-8') as file:
            return file.read()

    def title_of(self, name):
        return re.sub(r'^#+ ', '', self.read(name).split('\n', 1)[0]).replace(
            '`', '')

    def write(self, page, title, body, name=None):
        path = os.path.join(self.out, page)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(PAGE.format(
                title=html.escape(title), up='../' * page.count('/'),
                nav=self.navigation(page, name), body=body))

    def navigation(self, page, current):
        up = '../' * page.count('/')
        parts = []
        for head, part in (('Doorbell', None), *SECTIONS):
            items = ''.join(
                f'<li><a href="{up}{self.pages[n]}"'
                f'{" aria-current=page" if n == current else ""}>'
                f'{html.escape(self.titles[n])}</a></li>'
                for n in self.pages if self.section_of(n) == part)
            parts.append(f'<h2>{head}</h2><ul>{items}</ul>')
        return ''.join(parts)

    def link(self, name, page, match):
        """A link of the document `name`, for its page."""
        target = os.path.normpath(os.path.join(os.path.dirname(name),
                                               html.unescape(match[2])))
        full = os.path.join(self.root, target)
        if target in self.pages:
            to = self.pages[target]
        elif os.path.exists(full):
            to = f'source/{target}.html'
            self.sources.add(target)
        else:
            to = target # which the check of links complains of
        to = os.path.relpath(to, os.path.dirname(page) or '.')
        return f'{match[1]}{to}{match[3] or ""}"'

    def image(self, name, page, match):
        """A picture of the document `name`, copied for its page."""
        source = os.path.normpath(os.path.join(os.path.dirname(name),
                                               html.unescape(match[2])))
        target = os.path.join(self.out, source)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(self.root, source), target)
        to = os.path.relpath(source, os.path.dirname(page) or '.')
        return f'{match[1]}{to}"'

    def make_page(self, name):
        page = self.pages[name]
        text = re.sub(r'^```(\w+) \S+$', r'```\1', self.read(name), flags=re.M)
        body = markdown.markdown(text, extensions=[
            'fenced_code', 'tables', 'sane_lists', TocExtension(slugify=slug)])
        body = LINK.sub(lambda match: self.link(name, page, match), body)
        body = IMAGE.sub(lambda match: self.image(name, page, match), body)
        body = body.replace('<pre><code class="language-text">',
                            '<pre class="output"><code>')
        self.write(page, self.titles[name], body, name)

    def make_source(self, target):
        full = os.path.join(self.root, target)
        if os.path.isdir(full):
            text = '\n'.join(sorted(os.listdir(full)))
        else:
            text = self.read(target)
        self.write(f'source/{target}.html', target,
                   f'<h1>{html.escape(target)}</h1><pre><code>'
                   f'{html.escape(text)}</code></pre>')

    def make(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        with open(os.path.join(self.out, 'style.css'), 'w',
                  encoding='utf-8') as file:
            file.write(STYLE)
        for name in self.pages:
            self.make_page(name)
        for target in sorted(self.sources):
            self.make_source(target)


if __name__ == '__main__':
    Site(os.path.abspath(sys.argv[1]), sys.argv[2]).make()
