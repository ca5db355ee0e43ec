#!/usr/bin/env python3
"""Machine code that the simulated card knows: hcq/nv's own kernel. The card
runs the text that it was assembled from; that it was, ptxas tells
(tests/golden/test_nv_move.py).

usage: native.py NV_MOVE_C MOVE_PTX OUTPUT
"""
import re
import sys


def main():
    source, ptx, output = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        text = file.read()
    with open(ptx, encoding='utf-8') as file:
        lines = file.read().splitlines()
    arrays = re.findall(r'uint64_t sm(\d+)_words\[\] = \{([^}]*)\}', text)
    with open(output, 'w', encoding='utf-8') as file:
        file.write('static const char native_text[] =\n')
        for line in lines:
            file.write('    "' + line.replace('\\', '\\\\').replace('"', '\\"')
                       + '\\n"\n')
        file.write('    ;\n')
        for sm, words in arrays:
            file.write(f'static const uint64_t native_sm{sm}[] = {{{words}}};\n')
        file.write('static const struct {\n    uint32_t sm, n_bytes;\n'
                   '    const uint64_t *words;\n} natives[] = {\n')
        for sm, _ in arrays:
            file.write(f'    {{{sm}, sizeof(native_sm{sm}), native_sm{sm}}},\n')
        file.write('};\n')


if __name__ == '__main__':
    main()
