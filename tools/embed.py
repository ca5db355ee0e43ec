#!/usr/bin/env python3
"""A file as an array of characters in C, which a zero ends.

usage: embed.py FILE NAME OUT
"""
import sys

with open(sys.argv[1], 'rb') as file:
    data = file.read()
lines = [', '.join(f"'\\{byte:03o}'" for byte in data[i:i + 12])
         for i in range(0, len(data), 12)]
with open(sys.argv[3], 'w', encoding='utf-8') as out:
    out.write(f'/* Made of {sys.argv[1].rsplit("/", 1)[-1]} by embed.py. */\n'
              f'static const char {sys.argv[2]}[] = {{\n'
              + ',\n'.join(lines) + ', 0};\n')
