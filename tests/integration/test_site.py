#!/usr/bin/env python3
"""The site that is made of docs/, and the API reference: every link leads to a
page that is there and to a place in it; doxygen has nothing to warn of. In a
browser, from a disk and from a server: navigation, search, no page wider than
a phone, nothing from a network.

usage: test_site.py SOURCE_ROOT BUILD_ROOT [--keep FOLDER]
"""
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser

import browser

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

SOURCE, BUILD = sys.argv[1:3]
KEEP = sys.argv[4] if sys.argv[3:4] == ['--keep'] else None
WIDTHS = ((390, 844), (1400, 900))
# Long tables, wide code, a picture, a list of files.
WIDE = ('index.html', 'reference/functions.html', 'explanation/nvidia.html',
        'how-to/new-accelerator.html', 'hardware/nvidia-kernel.html',
        'source/hcq/hcq.h.html')
SECTIONS = ['Doorbell', 'Tutorials', 'How to', 'Reference', 'Explanation',
            'Hardware facts', 'Benchmarks']
# What can be scrolled within its box is not too wide; what is hidden neither.
TOO_WIDE = """(() => {
    const scrolls = node => node && node !== document.body &&
        (/auto|scroll|hidden/.test(getComputedStyle(node).overflowX) ||
         scrolls(node.parentElement));
    return [document.documentElement.scrollWidth > innerWidth && 'the page',
        ...[...document.querySelectorAll('article *, body > pre')].filter(
            node => node.getBoundingClientRect().right > innerWidth + 1 &&
                !scrolls(node)).map(node => node.outerHTML.slice(0, 60)),
    ].filter(x => x);
})()"""
SMALL = """[...document.querySelectorAll('article p, article li, article td')]
    .filter(node => parseFloat(getComputedStyle(node).fontSize) < 11).length"""
# The tabs of a desk; the folded lists of a phone.
TABS = """[...document.querySelectorAll('.md-tabs__link')].map(
    node => node.textContent.trim())"""
LISTS = """[...document.querySelectorAll(
    '.md-nav--primary > .md-nav__list > .md-nav__item > .md-nav__link')].map(
    node => node.textContent.trim()).filter(text => text)"""
VISIBLE = """[...document.querySelectorAll('.md-nav--primary a.md-nav__link')]
    .filter(node => {
        const box = node.getBoundingClientRect();
        return box.left >= 0 && box.right <= innerWidth && box.width > 0 &&
            document.elementsFromPoint(box.left + 5, box.top + 5)
                .includes(node);
    }).map(node => node.textContent.trim())"""
RESULTS = """[...document.querySelectorAll('.md-search-result__link')].map(
    node => [node.pathname.split('/').slice(-2).join('/'),
             node.textContent.trim()])"""
TYPE = """(() => {
    const field = document.querySelector('.md-search__input');
    field.focus();
    field.value = '%s';
    field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
})()"""
FOREIGN = """performance.getEntriesByType('resource').map(e => e.name).filter(
    name => new URL(name).host !== location.host)"""


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


def site_complaints(out):
    done = subprocess.run(
        [sys.executable, os.path.join(SOURCE, 'tools/site/site.py'), SOURCE,
         out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    if done.returncode:
        return done.stdout.split('\n')
    n = sum(name.endswith('.md') for _, _, names in
            os.walk(os.path.join(SOURCE, 'docs')) for name in names)
    made = sum(name.endswith('.html') for folder, _, names in os.walk(out)
               if '/source' not in folder for name in names)
    few = [] if made == n + 1 else [f'{made} pages of {n} documents']
    return few + list(link_complaints(out)) + list(text_complaints(out))


def text_complaints(out):
    """Lists that became text; addresses that a page would fetch."""
    for folder, _, names in os.walk(out):
        for name in names:
            if not name.endswith(('.html', '.css')):
                continue
            path = os.path.join(folder, name)
            here = os.path.relpath(path, out)
            with open(path, encoding='utf-8') as file:
                text = file.read()
            for match in re.finditer(r'<p>[^<]*\n(?:[-*]|1\.) ', text):
                yield f'{here}: no list: {match[0][-60:]}'
            for match in re.finditer(
                    r'(?:src="|<link [^>]*href="|url\([\'"]?)(https?:[^"\')]*)',
                    text):
                yield f'{here}: fetches {match[1]}'


def pause(page, ms):
    page.call('Runtime.evaluate', awaitPromise=True,
              expression=f'new Promise(done => setTimeout(done, {ms}))')


def wait_for(page, expression, n_times=600):
    """Its value once that is not empty."""
    for _ in range(n_times):
        value = page.value(expression)
        if value:
            return value
        pause(page, 100)
    return value


def navigation_complaints(page, is_phone):
    """From the first page to the one on bundles, as a reader clicks."""
    heads = page.value(LISTS if is_phone else TABS)
    if heads != SECTIONS:
        yield f'sections: {heads}'
    if is_phone:
        page.value("document.querySelector('label[for=__drawer]').click()")
        page.value("""[...document.querySelectorAll(
            '.md-nav--primary label.md-nav__link')].find(
            node => node.textContent.trim() === 'Reference').click()""")
        shown = wait_for(page, f"{VISIBLE}.includes('Glossary')")
    else:
        page.follow("""[...document.querySelectorAll('.md-tabs__link')].find(
            node => node.textContent.trim() === 'Reference').click()""")
        shown = page.value(f"{VISIBLE}.includes('Bundles')")
    screenshot(page, f'list-{"phone" if is_phone else "desk"}')
    if not shown:
        yield f'the list of the reference: {page.value(VISIBLE)}'
    page.follow("""[...document.querySelectorAll('a.md-nav__link')].find(
        node => node.textContent.trim() === 'Bundles').click()""")
    if page.value("document.querySelector('h1').firstChild.textContent") != (
            'Bundles'):
        yield f'the link to Bundles: {page.value("location.href")}'


def search_complaints(page, word, want):
    """Types a word at once: most often before the index has come."""
    page.value("document.querySelector('label[for=__search]').click()")
    page.value(TYPE % '')
    page.value(TYPE % word)
    results = wait_for(page, RESULTS)
    if not any(link.split('?')[0].endswith(want) for link, _ in results):
        yield f'{word}: {results[:5]}, not {want}'


def screenshot(page, name):
    if KEEP:
        pause(page, 500) # what moves has arrived
        page.screenshot(os.path.join(KEEP, name + '.png'), False)


def browser_complaints(page, address, width, height):
    """What is wrong at one size; `address` ends with a slash."""
    kind = f'{address.split(":")[0]}-{width}'
    for name in WIDE if kind.startswith('file') else WIDE[:1]:
        page.open(address + name, width, height)
        screenshot(page, f'{kind}-{os.path.basename(name)}')
        yield from (f'{name}: too wide: {x}' for x in page.value(TOO_WIDE))
        yield from (f'{name}: fetches {x}' for x in page.value(FOREIGN))
        if page.value(SMALL):
            yield f'{name}: small print: {page.value(SMALL)}'
    page.open(address + 'index.html', width, height)
    yield from navigation_complaints(page, width < 600)
    for word, want in (('checksum', 'bundle-format.html'),
                       ('bell_matmul', 'first-tensor.html')):
        page.open(address + 'tutorials/first-tensor.html', width, height)
        yield from search_complaints(page, word, want)
        screenshot(page, f'{kind}-search-{word}')
    yield from page.complaints


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check_in_browser(tap, program, out):
    server = http.server.ThreadingHTTPServer(
        ('127.0.0.1', 0), functools.partial(Quiet, directory=out))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where_to = (('from a disk', f'file://{out}/'),
              ('from a server', f'http://127.0.0.1:{server.server_port}/'))
    with browser.Browser(program) as page:
        for where, address in where_to:
            for width, height in WIDTHS:
                page.complaints.clear()
                tap.check(f'the site {where}, {width} wide', list(
                    browser_complaints(page, address, width, height)))
    server.shutdown()


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
        out = os.path.join(root, 'site')
        program = browser.find()
        if shutil.which('mkdocs') is None:
            tap.skip('the site', 'no mkdocs')
        else:
            tap.check('the site', site_complaints(out))
            if program is None:
                tap.skip('the site in a browser', 'no Chromium')
            else:
                check_in_browser(tap, program, out)
        if (shutil.which('doxygen') is None or
                not os.path.exists(os.path.join(BUILD, 'docs/Doxyfile'))):
            tap.skip('the API reference', 'configured without doxygen')
        else:
            tap.check('the API reference', api_complaints(root))
    tap.finish()


if __name__ == '__main__':
    main()
