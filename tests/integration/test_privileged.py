#!/usr/bin/env python3
"""A program with more rights than who started it ignores the environment.

usage: test_privileged.py PROGRAM
A copy gets the setgid bit and a group that is not ours; that takes root, and a
file system that honours it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

OTHER_GROUP = 65534


def run(program, env):
    done = subprocess.run([program], env=env, capture_output=True, text=True,
                          check=True, timeout=60)
    return dict(line.split(': ', 1) for line in done.stdout.splitlines())


def main():
    program = sys.argv[1]
    if os.geteuid() != 0 or os.getegid() == OTHER_GROUP:
        print('1..0 # SKIP only root can make a program privileged')
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        cassette = f'{folder}/cassette'
        ptxas = f'{folder}/ptxas'
        with open(ptxas, 'w', encoding='utf-8') as file:
            file.write('#!/bin/sh\n')
        os.chmod(ptxas, 0o755)
        env = {
            'BELL_DEVICE': f'NV@record:{cassette}@sim:sm_90',
            'BELL_PTXAS': ptxas, 'CUDA_HOME': folder, 'PATH': folder,
            'BELL_DEBUG': 'mem', 'BELL_FAIL_ALLOC': '100000',
            'BELL_CACHE': f'{folder}/cache', 'HOME': folder,
            'XDG_CACHE_HOME': folder,
        }
        copy = f'{folder}/privileged'
        shutil.copy(program, copy)
        plain = run(copy, env)
        recorded = os.path.exists(cassette)
        if recorded:
            os.unlink(cassette)
        shutil.rmtree(f'{folder}/cache', ignore_errors=True)
        os.chown(copy, -1, OTHER_GROUP)
        os.chmod(copy, 0o2755)
        secure = run(copy, env)
        if secure['secure'] == '0':
            print('1..0 # SKIP the file system ignores the setgid bit')
            return
        checks = {
            'without privileges the environment counts':
                plain['secure'] == '0' and '@record:' in plain['device'] and
                recorded and plain['ptxas'] == ptxas and
                plain['debug'] != '0' and
                (plain['cache'] == f'{folder}/cache' or
                 plain['cache'].startswith('built without')),
            'no device from the environment': '@' not in secure['device'],
            'nothing is written': not os.path.exists(cassette),
            'no program from the environment':
                not secure['ptxas'].startswith(folder),
            'no debug output': secure['debug'] == '0',
            'no cache': (secure['cache'].startswith('a program with priv') or
                         secure['cache'].startswith('built without')) and
                        not any(os.path.exists(f'{folder}/{name}') for name in
                                ('cache', 'doorbell', '.cache')),
        }
    for number, (name, good) in enumerate(checks.items(), 1):
        if not good:
            print(f'# plain {plain}, privileged {secure}')
        print(f'{"ok" if good else "not ok"} {number} - {name}')
    print(f'1..{len(checks)}')
    sys.exit(not all(checks.values()))


if __name__ == '__main__':
    main()
