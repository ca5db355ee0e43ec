#!/usr/bin/env python3
"""The pages of `doorbell bench --html` and `doorbell trace show --html` in a
browser: no error, no plot without marks, nothing wider than the window; on a
phone, a desk, in the dark, on paper.

usage: test_report.py DOORBELL [--keep FOLDER]
"""
import json
import os
import sys
import tempfile

import browser
from cli import Tap, expect, run

PLOTS = '''[...document.querySelectorAll('svg')].map(svg => ({
    title: svg.getAttribute('aria-label'),
    marks: svg.querySelectorAll('.mark').length,
    bad: [...svg.querySelectorAll('*')].filter(node => [...node.attributes].some(
        a => /NaN|Infinity|undefined/.test(a.value))).length,
    rows: new Set([...svg.querySelectorAll('text.faint')].map(
        n => n.getAttribute('y'))).size,
    width: svg.getBoundingClientRect().width,
    height: svg.getBoundingClientRect().height}))'''
# Words that stick out of their plot, or lie on each other; the numbers of the
# roofline stand close.
CROWDED = '''[...document.querySelectorAll('svg')].flatMap(svg => {
    const room = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(
        n => [n.textContent, n.getBoundingClientRect()]);
    const meet = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right &&
        a.top + 3 < b.bottom && b.top + 3 < a.bottom;
    return texts.filter(([, r]) => r.left < room.left - 1 ||
        r.right > room.right + 1).map(([t]) => t + ' is cut').concat(
        texts.flatMap(([t, r], i) => texts.slice(i + 1).filter(
            ([, o]) => meet(r, o)).map(([u]) => t + ' lies on ' + u)));
})'''
# The roofline with its points at the left, where the roofs' names are.
LEFT = '''(measured.filter(r => r.flops && r.unit === 'gflops').forEach(
    r => {r.bytes = 10 * r.flops;}), roofline(), 0)'''
WIDTHS = '''[document.documentElement.scrollWidth, window.innerWidth,
    Math.max(...[...document.body.querySelectorAll(':not(.wide *)')].filter(
        n => !n.closest('svg') && !n.closest('script')).map(
        n => n.getBoundingClientRect().right))]'''
STORIES = ('NV@sim:sm_90', 'AMD@sim:gfx1100')
LOOKS = ((390, 844, False), (900, 900, False), (1300, 900, False),
         (1900, 1000, False), (390, 844, True), (1300, 900, True))
# Of the roofline: points that are above all roofs, a roof's name on a point,
# entries of a list that lie on each other or stick out.
ROOFLINE = """(() => {
    const {points, bands, roofs} = roofsOf(), found = [];
    const slope = Math.max(...bands.map(b => b.rate)),
        top = Math.max(...roofs.map(r => r.most));
    for (const p of points)
        if (p.y > 1.001 * slope * p.x || p.y > 1.001 * top)
            found.push(`${p.name} is above the roof`);
    const box = n => n.getBoundingClientRect();
    const meet = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right &&
        a.top + 1 < b.bottom && b.top + 1 < a.bottom;
    const svg = document.querySelector('svg[aria-label=roofline]');
    const circles = [...svg.querySelectorAll('circle')].map(box);
    const names = [...svg.querySelectorAll('text.roof')];
    for (const n of names)
        if (circles.some(c => meet(box(n), c)))
            found.push(n.textContent + ' lies on a point');
    for (const list of document.querySelectorAll('ul.names, ul.legend')) {
        const items = [...list.children].map(n => {
            const range = document.createRange();
            range.selectNodeContents(n);
            return [n.textContent, box(range)];
        });
        items.forEach(([t, r], i) => {
            if (r.right > box(list).right + 1)
                found.push(t + ' sticks out');
            for (const [u, o] of items.slice(i + 1))
                if (meet(r, o))
                    found.push(t + ' lies on ' + u);
        });
        if (!items.length)
            found.push('an empty list');
    }
    if (document.querySelectorAll('ul.names').length < 2)
        found.push('no list of points');
    return found;
})()"""


def plot_complaints(page, wanted):
    plots = page.value(PLOTS)
    titles = {p['title'] for p in plots}
    roofs = page.value(ROOFLINE) if 'roofline' in titles else []
    return roofs + [f'{p}' for p in plots if p['marks'] < 1 or p['bad'] or
            p['width'] < 200 or p['height'] < 40 or p['rows'] < 3] + [
        f'no plot "{w}"' for w in wanted - titles] + page.value(CROWDED) + [
        f'{low} to {high}: {got}' for low, high in (
            (0.21, 0.49), (0.11, 9.9), (9, 11), (2, 500), (1.1e-3, 1.2e-3))
        for got in [page.value(
            f'ticks({{log: true, range: [{low}, {high}]}}, 8)')]
        if not 2 <= len(got) <= 9 or got[0] < low or got[-1] > high * 1.01]


def story_complaints(page, wanted):
    """What is folded opens, what is searched is found, links lead there."""
    complaints = []
    for expression, want in wanted:
        got = page.value(expression)
        if got != want:
            complaints.append(f'{expression}: {got}, not {want}')
    return complaints


def check_page(tap, program, name, path, check, wanted, keep):
    with browser.Browser(program) as page:
        for width, height, dark in LOOKS:
            page.complaints.clear()
            page.open(path, width, height, dark)
            complaints = check(page, wanted)
            widths = page.value(WIDTHS)
            complaints += list(page.complaints)
            if widths[0] > widths[1] or widths[2] > widths[1] + 1:
                complaints.append(f'wider than the window: {widths}')
            tap.check(f'{name}, {width} wide{", dark" if dark else ""}',
                      complaints)
            if keep:
                page.screenshot(os.path.join(
                    keep, f'{name}-{width}{"-dark" if dark else ""}.png'))
        if check is plot_complaints:
            page.open(path, 390, 844, False)
            page.value(LEFT)
            tap.check(f'{name}, points under words', page.value(CROWDED))
        paper = page.print_pages()
        tap.check(f'{name}, on paper', [
            'no PDF' for _ in [0] if not paper.startswith(b'%PDF')])
        if keep:
            with open(os.path.join(keep, name + '.pdf'), 'wb') as file:
                file.write(paper)


def check_story(tap, program, device, folder, keep):
    backend, form = device.split('@')
    cassette, page = folder + '/story.cas', folder + '/story.html'
    if run('devices', device).returncode != 0:
        tap.skip(f'the story of {device}', 'it cannot be opened')
        return
    done = [run('eval', 'relu(ones(4, 4) @ ones(4, 4))', '--device',
                f'{backend}@record:{cassette}@{form}'),
            run('trace', 'show', cassette, '--html', page)]
    shown = run('trace', 'show', cassette, '--json')
    tap.check(f'the story of {device}', expect(done[0], 0) +
              expect(done[1], 0) + expect(shown, 0))
    story = json.loads(shown.stdout)
    bell, packets = [(i, r['decoded']) for i, r in enumerate(story['records'])
                     if r['decoded']][-1]
    check_page(tap, program, form.split(':')[1], page, story_complaints, (
        ("document.querySelectorAll('ol.records > li').length",
         len(story['records'])),
        ("[...document.querySelectorAll('h2')].map(n => n.textContent).join()",
         'Calls,Objects,Mappings,Records'),
        ("document.querySelectorAll('table')[1].tBodies[0].rows.length",
         len(story['objects'])),
        ("document.querySelectorAll('table')[2].tBodies[0].rows.length",
         len(story['mappings'])),
        (f"document.querySelector('#r{bell} details').open = true", True),
        # the event that tells it comes later
        (f"document.querySelector('#r{bell} details').dispatchEvent("
         "new Event('toggle'))", True),
        (f"document.querySelector('#r{bell} pre').textContent",
         '\n'.join(packets)),
        ("(() => { const find = document.querySelector('[type=search]');"
         "find.value = 'no such words'; find.dispatchEvent(new Event('input'));"
         "return document.querySelectorAll('ol.records > li').length; })()", 0),
        (f"location.hash = '#r{bell}'; dispatchEvent(new Event('hashchange'));"
         f"!!document.getElementById('r{bell}')", True),
        (f"document.querySelector('#r{bell} details').open = true", True),
    ), keep)


def main():
    tap = Tap()
    program = browser.find()
    keep = sys.argv[sys.argv.index('--keep') + 1] if (
        '--keep' in sys.argv) else None
    if not program:
        tap.skip('the report in a browser', 'no chromium here')
        tap.finish()
        return
    with tempfile.TemporaryDirectory() as folder:
        saved, page = folder + '/run.json', folder + '/page.html'
        done = [run('bench', 'CPU', 'launch', 'copy', 'mem', 'flops', 'gemm',
                    'ops', '--quick', '--seconds', '0.01', '--html', page,
                    '--save', saved)]
        tap.check('a page', expect(done[0], 0))
        check_page(tap, program, 'all', page, plot_complaints, {
            'roofline', 'Copies by size', 'Memory by size', 'launch_wait'},
            keep)
        done = run('bench', 'NV@sim:h100', 'launch', '--quick', '--seconds',
                   '2', '--html', folder + '/sim.html')
        if run('devices', 'NV@sim:h100').returncode == 0:
            with browser.Browser(program) as shown:
                shown.open(folder + '/sim.html', 900, 900)
                tall = shown.value("document.querySelectorAll('svg"
                                   "[aria-label=\"run: clock\"]').length")
                title = shown.value('document.title + document.querySelector('
                                    '"h1").textContent')
            tap.check('the page of a simulated card says so in its titles',
                      expect(done, 0) + [title] * (
                          title.count('simulated') != 2))
            tap.check('its clock during the run is drawn', [
                f'{tall} plots'] * (tall != 1))
        done = run('bench', 'CPU', 'launch', '--quick', '--seconds', '0.01',
                   '--html', page, '--against', saved)
        tap.check('a page of two runs', expect(done, 0))
        check_page(tap, program, 'two', page, plot_complaints,
                   {'comparison', 'submit_wait'}, keep)
        for device in STORIES:
            check_story(tap, program, device, folder, keep)
    tap.finish()


if __name__ == '__main__':
    main()
