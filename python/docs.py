#!/usr/bin/env python3
"""Texts of the function table's docstrings as rows in C: the comments that the
public headers have above a function, and the examples of examples.txt.

usage: docs.py EXAMPLES HEADER... OUT
"""
import re
import sys

PROTOTYPE = re.compile(
    r'/\*((?:(?!\*/).)*)\*/\s*BELL_API\s+(?:BELL_MUST_CHECK\s+)?'
    r'(?:struct \w+ \*|void|bool|bell_status|uint32_t)\s*\n?\s*'
    r'bell_(\w+)\(', re.S)


def comments(path):
    """(function without bell_, text) of a header."""
    with open(path, encoding='utf-8') as file:
        for text, name in PROTOTYPE.findall(file.read()):
            lines = [re.sub(r'^\s*\* ?', '', line).rstrip()
                     for line in text.strip().split('\n')]
            yield name, '\n'.join(lines)


def examples(path):
    """(row of the table, its example) of the file."""
    with open(path, encoding='utf-8') as file:
        for block in file.read().split('\n\n'):
            lines = [line for line in block.strip('\n').split('\n')
                     if not line.startswith('#')]
            if len(lines) > 1:
                yield lines[0], '\n'.join(lines[1:])


def quoted(text):
    text = text.replace('\\', '\\\\').replace('"', '\\"')
    return '"' + text.replace('\n', '\\n"\n     "') + '"'


def main():
    shown, headers, out = sys.argv[1], sys.argv[2:-1], sys.argv[-1]
    rows = [(0, name, text) for header in headers
            for name, text in comments(header)]
    rows += [(1, name, text) for name, text in examples(shown)]
    with open(out, 'w', encoding='utf-8') as file:
        file.write('/* Made by docs.py. */\n')
        for is_example, name, text in rows:
            file.write(f'{{"{name}", {is_example},\n     {quoted(text)}}},\n')


if __name__ == '__main__':
    main()
