#!/usr/bin/env python3
"""Runs a program and compares its stdout with a file.

usage: expect.py FILE PROGRAM [ARGUMENTS]
"""
import os
import subprocess
import sys

environment = dict(os.environ, BELL_DEVICE='CPU:0')
with open(sys.argv[1], encoding='utf-8') as file:
    expected = file.read()
done = subprocess.run(sys.argv[2:], capture_output=True, text=True,
                      env=environment, check=False)
if done.returncode != 0 or done.stdout != expected:
    print(f'exit code {done.returncode}\nstdout: {done.stdout}'
          f'expected: {expected}stderr: {done.stderr}')
    sys.exit(1)
