#!/usr/bin/env python3
"""Help, man pages and completions say the same of every verb: what its table of
options has. Pages are read by man and mandoc, completions by their shells,
where they are installed.

usage: test_manual.py DOORBELL FOLDER      FOLDER: of pages and completions
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap, expect, run, schema_complaints

FOLDER = sys.argv[2]
PATH = os.path.dirname(os.path.abspath(DOORBELL)) + os.pathsep + os.environ['PATH']


def execute(*command, text=None):
    return subprocess.run(command, capture_output=True, text=True, input=text,
                          check=False, timeout=120, cwd='/',
                          env=dict(os.environ, PATH=PATH, LC_ALL='C.UTF-8',
                                   MANWIDTH='400', HOME='/dev/null'))


def differ(what, got, want):
    """Complaints about lists that are to be the same."""
    got, want = list(got), list(want)
    return [f'{what}: {sorted(set(got) ^ set(want)) or got}'
            for _ in [0] if sorted(set(got)) != sorted(set(want))]


class Section:
    """A verb, or a part with options of its own."""

    def __init__(self, verb, part=None):
        self.words = [verb, part] if part else [verb]
        self.done = run(*self.words, '-h', '--json')
        self.document = json.loads(self.done.stdout)
        self.options = [o for o in self.document['options']
                        if not o['is_argument']]
        self.names = [o['name'] for o in self.options]

    def check_help(self):
        text = run(*self.words, '-h')
        rows = re.findall(r'^  (\S+)(?: \S+)? +\S', text.stdout,
                          re.MULTILINE)
        names = [o['name'] for o in self.document['options']] + ['-h']
        help_words = re.sub(r'\s+', ' ', text.stdout)
        return (expect(text, 0) + expect(self.done, 0) +
                schema_complaints('help', self.done.stdout) +
                [f'-h lacks {n}' for n in names if n not in rows] +
                [f'-h lacks "{o["help"]}"' for o in self.document['options']
                 if re.sub(r'\s+', ' ', o['help']) not in help_words])


def page_options(page, part):
    """The options of a page's section, and its text on one line."""
    section = re.split(r'^\.SH ', page, flags=re.MULTILINE)
    wanted = part.replace('-', '\\-').upper() if part else 'OPTIONS'
    text = next((s for s in section if s.startswith(wanted + '\n')), '')
    names = re.findall(r'^\.TP\n\\fB(\S+?)\\fR', text, re.MULTILINE)
    return [n.replace('\\-', '-').replace('\\e', '\\') for n in names], text


def check_pages(tap, verbs):
    for verb, sections in verbs.items():
        path = os.path.join(FOLDER, f'doorbell-{verb}.1')
        with open(path, encoding='utf-8') as file:
            page = file.read()
        complaints = []
        for section in sections:
            part = section.words[1] if len(section.words) > 1 else None
            names, text = page_options(page, part)
            if section.document['options']:
                complaints += differ(' '.join(section.words), names, [
                    o['name'] for o in section.document['options']] + ['-h'])
            flat = re.sub(r'\s+', ' ', text.replace('\\-', '-').replace(
                '\\&', '').replace('\\e', '\\'))
            complaints += [
                f'the page lacks "{o["help"]}"'
                for o in section.document['options']
                if re.sub(r'\s+', ' ', o['help']) not in flat]
        tap.check(f'page of {verb}', complaints)
    with open(os.path.join(FOLDER, 'doorbell.1'), encoding='utf-8') as file:
        named = re.findall(r'^\.TP\n\.BR doorbell\\-(\S+)', file.read(),
                           re.MULTILINE)
    tap.check('page of doorbell', differ('verbs', named, verbs))


def check_readers(tap):
    pages = [os.path.join(FOLDER, name) for name in sorted(os.listdir(FOLDER))
             if name.endswith('.1')]
    if shutil.which('mandoc'):
        done = execute('mandoc', '-T', 'lint', *pages)
        tap.check('mandoc -T lint', (done.stdout + done.stderr).splitlines())
    else:
        tap.skip('mandoc -T lint', 'no mandoc')
    if not shutil.which('man') or not shutil.which('groff'):
        tap.skip('man -l', 'no man, or no groff')
        return
    complaints = []
    for page in pages:
        done = execute('man', '-l', '--warnings', page)
        if done.returncode or done.stderr or len(done.stdout) < 200:
            complaints.append(f'{page}: {done.stderr or done.stdout}')
    tap.check('man -l', complaints)


# ---- completions --------------------------------------------------------------

def bash(line):
    script = ('source "$1"; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; '
              '_doorbell; printf "%s\\n" "${COMPREPLY[@]}"')
    done = execute('bash', '-c', script, 'bash',
                   os.path.join(FOLDER, 'doorbell'), line)
    return done.stdout.split() if not done.stderr else [done.stderr]


def zsh(words):
    """The option names of what _arguments is given, by a stub of it."""
    script = ('_arguments() { shift; print -rl -- "$@" }; '
              '_describe() { print -rl -- $verbs }; file=$1; shift; '
              'words=(doorbell "$@" ""); CURRENT=${#words}; source $file')
    done = execute('zsh', '-f', '-c', script, 'zsh',
                   os.path.join(FOLDER, '_doorbell'), *words)
    if done.stderr:
        return [done.stderr]
    return [re.split(r'[\[:=]', line.lstrip('*'))[0]
            for line in done.stdout.splitlines()
            if words == [] or line.lstrip('*').startswith('-')]


def fish(line):
    done = execute('fish', '--no-config', '-c', 'source $argv[1]; complete -C '
                   '$argv[2]', os.path.join(FOLDER, 'doorbell.fish'), line)
    return [row.split('\t')[0] for row in done.stdout.splitlines()]


def check_completions(tap, verbs):
    sections = [s for parts in verbs.values() for s in parts]
    complaints = differ('verbs', bash('doorbell '),
                        [*verbs, '--version', '-h'])
    for section in sections:
        line = ' '.join(['doorbell', *section.words])
        complaints += differ(line, bash(line + ' -'), section.names + ['-h'])
    complaints += differ('after a part of a word', bash('doorbell be'),
                         ['bench'])
    names = run('devices', '--names').stdout.split()
    complaints += differ('devices', bash('doorbell bench '), names)
    for line in ('doorbell eval --device ', 'doorbell eval --device='):
        complaints += differ(line, bash(line + 'NV@sim:sm_9'), [
            name.split(':')[1] for name in names
            if name.startswith('NV@sim:sm_9')])
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'one'))
        with open(os.path.join(folder, 'other'), 'w', encoding='utf-8'):
            pass
        for line in ('doorbell eval --out ', 'doorbell eval --in x=',
                     'doorbell trace show ', 'doorbell run '):
            complaints += differ(line, bash(f'{line}{folder}/o'), [
                f'{folder}/one', f'{folder}/other'])
        complaints += differ('folders', bash(
            f'doorbell devices --root {folder}/o'), [f'{folder}/one'])
    complaints += differ('parts', bash('doorbell cache '), ['show', 'clear'])
    tap.check('bash', complaints)
    if shutil.which('zsh'):
        complaints = differ('verbs', zsh([]), verbs)
        for section in sections:
            complaints += differ(' '.join(section.words), zsh(section.words),
                                 section.names + ['-h'])
        tap.check('zsh', complaints)
    else:
        tap.skip('zsh', 'no zsh')
    if shutil.which('fish'):
        complaints = differ('verbs', fish('doorbell '), verbs)
        for section in sections:
            line = ' '.join(['doorbell', *section.words])
            complaints += differ(line, fish(line + ' --'), [
                n for n in section.names if n.startswith('--')])
        tap.check('fish', complaints)
    else:
        tap.skip('fish', 'no fish')


def main():
    tap = Tap()
    done = run('-h', '--json')
    rows = json.loads(done.stdout)['verbs']
    text = run('-h').stdout
    tap.check('doorbell -h', expect(done, 0) +
              schema_complaints('help', done.stdout) + differ(
                  'verbs', re.findall(r'^  (\S+)', text, re.MULTILINE),
                  [row['name'] for row in rows]))
    verbs = {}
    for row in rows:
        sections = [Section(row['name'])]
        for part in row['parts']:
            section = Section(row['name'], part)
            if section.document['options'] != sections[0].document['options']:
                sections.append(section)
        verbs[row['name']] = sections
        tap.check(f'{row["name"]} -h', [
            complaint for section in sections
            for complaint in section.check_help()])
        usage = sections[0].document['usage'] + sections[0].document['about']
        tap.check(f'{row["name"]} names its parts', [
            part for part in row['parts'] if part not in usage and
            part not in run(row['name'], 'nothing').stderr])
    check_pages(tap, verbs)
    check_readers(tap)
    check_completions(tap, verbs)
    tap.finish()


if __name__ == '__main__':
    main()
