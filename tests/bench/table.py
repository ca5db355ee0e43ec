#!/usr/bin/env python3
"""Prints the benchmark programs' JSON documents as one table.

usage: table.py FILE...
"""
import json
import sys

UNITS = {'time_ns': 'ns', 'time_us': 'us', 'time_ms': 'ms', 'time_s': 's'}


def row(result):
    key = next(k for k in UNITS if k in result)
    cells = [result['name'], f'{result[key]:.4g} {UNITS[key]}', '', '', '']
    if 'peer' in result:
        cells[2] = f'{result["peer_ms"]:.4g} ms {result["peer"]}'
        cells[3] = f'{result["ratio"]:.2f}x'
    if 'gflops' in result:
        cells[4] = f'{result["gflops"]:.1f} GFLOP/s'
    elif 'bandwidth_gb_s' in result:
        cells[4] = f'{result["bandwidth_gb_s"]:.1f} GB/s'
    return cells


def main():
    rows = [['what', 'time', 'peer', 'peer/time', 'rate']]
    notes = []
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as file:
            document = json.load(file)
        rows += [row(result) for result in document['results']]
        notes.append(f'{path.split("/")[-1]}: {document["cpu"]}, '
                     f'{document["n_threads"]} threads, peak memory '
                     f'{document["peak_memory_bytes"] / 2**20:.0f} MiB')
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for cells in rows:
        print('  '.join(c.ljust(w) for c, w in zip(cells, widths)).rstrip())
    print('\n'.join(notes))


if __name__ == '__main__':
    main()
