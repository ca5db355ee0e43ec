#!/usr/bin/env python3
"""Signed bundles and weights: keys and signatures of `openssl`; what is not
signed by the key is refused before anything in it is looked at.

usage: test_signed.py PROGRAM BUNDLE [--none]
PROGRAM is doorbell or doorbell-run; --none: built without libsodium.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'structure'))
from common import Tap  # noqa: E402

PROGRAM, BUNDLE = sys.argv[1:3]
VERB = ['run'] if os.path.basename(PROGRAM) == 'doorbell' else []


def openssl(*args):
    subprocess.run(['openssl', *args], check=True, capture_output=True)


def keys(folder, name, kind=('-algorithm', 'ed25519')):
    """Paths of a private and a public key."""
    paths = [os.path.join(folder, f'{name}.{end}') for end in ('key', 'pem')]
    openssl('genpkey', *kind, '-out', paths[0])
    openssl('pkey', '-in', paths[0], '-pubout', '-out', paths[1])
    return paths


def sign(key, path):
    openssl('pkeyutl', '-sign', '-rawin', '-inkey', key, '-in', path, '-out',
            path + '.sig')


def use(*args):
    return subprocess.run([PROGRAM, *VERB, *args], capture_output=True,
                          text=True, timeout=120, check=False)


def expect(done, code, err=''):
    complaints = []
    if done.returncode != code:
        complaints.append(f'exit code {done.returncode}, not {code}')
    if err not in done.stderr:
        complaints.append(f'stderr lacks "{err}"')
    if code and (done.stdout or len(done.stderr.splitlines()) != 1):
        complaints.append('it says more than a line')
    return complaints + [done.stdout + done.stderr] * bool(complaints)


def write(path, content):
    with open(path, 'wb') as file:
        file.write(content)


def check_bundles(tap, folder, key, public, other):
    path = os.path.join(folder, 'f.bundle')
    new = os.path.join(folder, 'new.bundle')
    shutil.copy(BUNDLE, path)
    with open(path, 'rb') as file:
        whole = file.read()
    zeros = os.path.join(folder, 'x')
    write(zeros, bytes(128))
    weights = os.path.join(folder, 'w.safetensors')
    write(weights, struct.pack('<Q', 2) + b'{}')
    uses = (['--list'], ['--device', 'CPU', '--in', f'x={zeros}'],
            ['--weights', weights, '--save', new])

    def refused(name, err, key_path=public, code=1, *more):
        for args in uses:
            tap.check(f'{name}: {args[0]}', expect(
                use(path, '--key', key_path, *more, *args), code, err) +
                ['it was written'] * os.path.exists(new))

    tap.check('without a key', expect(use(path, '--list'), 0))
    refused('not signed', 'f.bundle is not signed: ')
    sign(key, path)
    with open(path + '.sig', 'rb') as file:
        signature = file.read()
    for args in uses[:2]:
        tap.check(f'signed: {args[0]}', expect(
            use(path, '--key', public, *args), 0))
    refused('another key', 'changed, or signed with another key', other)
    for at in (0, 8, 100, len(whole) // 2, len(whole) - 1):
        write(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        refused(f'byte {at} changed', 'f.bundle: ')
    for name, content in (('a byte less', whole[:-1]),
                          ('a byte more', whole + b'\0')):
        write(path, content)
        refused(name, 'is not its signature')
    write(path, whole)
    for at in (0, 31, 32, 63):
        write(path + '.sig', signature[:at] + bytes([signature[at] ^ 1]) +
              signature[at + 1:])
        refused(f'byte {at} of the signature changed', 'is not its signature')
    for n_bytes in (0, 63, 65):
        write(path + '.sig', (signature + b'\0')[:n_bytes])
        refused(f'a signature of {n_bytes} bytes',
                f'f.bundle.sig: has {n_bytes} bytes, expected a signature of 64')
    write(path + '.sig', signature)
    rsa = keys(folder, 'rsa', ('-algorithm', 'rsa', '-pkeyopt',
                               'rsa_keygen_bits:1024'))
    x448 = keys(folder, 'ed448', ('-algorithm', 'ed448'))
    for name, err in ((key, 'is a private key, expected a public one'),
                      (rsa[1], 'expected a public key of Ed25519'),
                      (x448[1], 'expected a public key of Ed25519'),
                      (path, 'expected a public key in PEM'),
                      ('/nonexistent', '/nonexistent: ')):
        refused(f'key {os.path.basename(name)}', err, name)
    with open(public, encoding='ascii') as file:
        text = file.read()
    short = os.path.join(folder, 'short.pem')
    for name, content in (('short', text.replace('MCow', 'MC')),
                          ('no end', text.replace('-----END', '')),
                          ('another sign', text.replace('MCow', 'MC*w')),
                          ('another OID', text.replace('MCowBQ', 'MCowBR'))):
        write(short, content.encode())
        refused(f'a key that is {name}', 'short.pem: expected a public key',
                short)
    with open(other, encoding='ascii') as file:
        write(short, (text + file.read()).encode())
    refused('a file of two keys', 'short.pem: has two keys, expected one',
            short)
    fifo = os.path.join(folder, 'fifo.pem')
    os.mkfifo(fifo)
    refused('a FIFO', 'fifo.pem: expected a regular file, got a FIFO', fifo)
    os.rename(path + '.sig', path + '.kept')
    os.mkfifo(path + '.sig')
    refused('a FIFO for a signature', 'f.bundle.sig: expected a regular file')
    os.replace(path + '.kept', path + '.sig')
    refused('two keys', '--key is given twice', other, 2, '--key', public)
    write(short, text.replace('\n', '\r\n').encode())
    tap.check('a key with other ends of lines', expect(
        use(path, '--key', short, '--list'), 0))


def check_weights(tap, folder, key, public):
    """Weights are judged as the bundle is: the file of nothing is refused for
    that only when it is signed."""
    path = os.path.join(folder, 'f.bundle')
    weights = os.path.join(folder, 'w.safetensors')
    args = [path, '--key', public, '--weights', weights, '--save',
            os.path.join(folder, 'new.bundle')]
    sign(key, path)
    tap.check('weights that are not signed', expect(
        use(*args), 1, 'w.safetensors is not signed: '))
    sign(key, weights)
    tap.check('weights that are signed', expect(
        use(*args), 6, 'w.safetensors: the bundle has a weight'))
    write(weights, struct.pack('<Q', 3) + b'{} ')
    tap.check('weights that were changed', expect(
        use(*args), 1, 'w.safetensors.sig is not its signature'))


def main():
    tap = Tap()
    if not shutil.which('openssl'):
        tap.skip('signatures', 'no openssl to make them')
        tap.finish()
        return
    with tempfile.TemporaryDirectory() as folder:
        key, public = keys(folder, 'own')
        if '--none' in sys.argv:
            tap.check('without libsodium', expect(
                use(BUNDLE, '--key', public, '--list'), 6,
                'signatures need libsodium'))
        else:
            check_bundles(tap, folder, key, public, keys(folder, 'other')[1])
            check_weights(tap, folder, key, public)
    tap.finish()


if __name__ == '__main__':
    main()
