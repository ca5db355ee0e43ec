#!/usr/bin/env python3
"""The library's tokenizer beside PyPI's tokenizers and sentencepiece, on random
texts.

usage: compare.py LIBDOORBELL.so [--texts N] [--kinds A,B] [--seed S]
    --texts: of each kind (1000000)
Needs `pip install tokenizers sentencepiece protobuf`. Texts have random Unicode
of all planes, code, languages, odd spaces and names of tokens. What a newer
Unicode explains is counted apart: a text that differs and has a character that
Unicode 8 did not have.
"""
import argparse
import itertools
import subprocess
import sys
import tempfile
import unicodedata
from unicodedata import ucd_3_2_0 as old

from kinds import make, texts
from libtok import Bell

NAMES = ['<unk>', '<s>', '</s>', '<|im_start|>', '<|endoftext|>', '[CLS]',
         '[MASK]', 'lstripped', 'WORD', 'right', ' right  ', 'a WORD b']


def judge_encode(judge, text):
    if hasattr(judge, 'EncodeAsIds'):
        return judge.EncodeAsIds(text)
    return judge.encode(text).ids


def judge_decode(judge, ids):
    if hasattr(judge, 'EncodeAsIds'):
        return judge.decode(ids)
    return judge.decode(ids)


def newer_characters():
    """Those that Unicode 8 does not have, or that changed their category: the
    judges' oldest tables are of that age. Perl knows when a character came."""
    code = ('for (1..0x10ffff) { next if $_ >= 0xd800 && $_ < 0xe000; '
            'print "$_\\n" unless chr($_) =~ /\\p{Present_In=8.0}/ }')
    done = subprocess.run(['perl', '-e', code], capture_output=True, text=True,
                          check=True)
    changed = {chr(c) for c in range(0x110000)
               if old.category(chr(c)) not in
               ('Cn', unicodedata.category(chr(c)))}
    return changed | {chr(int(line)) for line in done.stdout.split()}


def is_apart(name, text):
    """GGUF files cut signs out of texts, which the models they are made of do
    not, and lack added tokens."""
    if name == 'gguf_bert' and '\u2581' in text: # which begins its words
        return True
    return name.startswith('gguf_') and any(
        x in text for x in ('WORD', 'right', 'lstripped', '<s>', '</s>',
                            '<unk>', '<user>', '<0x41>'))


def compare(name, path, judge, other, args):
    bell = Bell(args.library, path)
    n = differ = newer = decoded = streams = 0
    wanted = (x for x in texts(args.seed, NAMES) if not is_apart(name, x))
    for text in itertools.islice(wanted, args.texts):
        n += 1
        want, got = judge_encode(judge, text), bell.encode(text)
        if want != got:
            if other.intersection(text):
                newer += 1
                continue
            differ += 1
            if differ <= 3:
                print(f'  {name}: {text!r}\n    {want}\n    {got}')
            continue
        back, mine = judge_decode(judge, want), bell.decode(want)
        same = mine.decode('utf-8', 'replace') == back
        # U+FFFD is written for bytes, which we keep; spaces before signs, too,
        # where a file does not ask for fewer.
        if '\ufffd' in back or name == 'gguf_bert':
            same = True
        if not same:
            decoded += 1
            if decoded <= 3:
                print(f'  {name} back: {text!r}\n    {back!r}\n    {mine!r}')
        if n % 10 == 0 and b''.join(bell.stream(want)) != mine:
            streams += 1
            if streams <= 3:
                print(f'  {name} stream: {text!r} {bell.stream(want)} {mine}')
    bell.close()
    print(f'{name}: {n} texts, {differ} differ, {newer} differ in newer characters, '
          f'{decoded} come back otherwise, {streams} '
          'streams otherwise', flush=True)
    return differ + decoded + streams


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('library')
    parser.add_argument('--texts', type=int, default=1000000)
    parser.add_argument('--kinds', default='')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--folder', help='of files that are made once')
    args = parser.parse_args()
    bad = 0
    other = newer_characters()
    with tempfile.TemporaryDirectory() as folder:
        made = make(args.folder or folder)
        for name, (path, judge) in made.items():
            if not args.kinds or name in args.kinds.split(','):
                bad += compare(name, path, judge, other, args)
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
