#!/usr/bin/env python3
"""`doorbell demo train-llama`: it learns, what it saves is the model that it
says, every device, every way to fail.

usage: test_train_llama.py DOORBELL [--small] [--sim]
    --small: few steps   --sim: there are simulated cards
"""
import json
import os
import random
import re
import sys
import tempfile

from cli import Tap, expect, expect_json_error, run, schema_complaints

SMALL = '--small' in sys.argv
DEVICES = ('NV@sim:sm_90', 'AMD@sim:gfx942') * ('--sim' in sys.argv)


def train(*args, **environment):
    return run('demo', 'train-llama', *args, **environment)


def write_text(path, n):
    rng = random.Random(1)
    words = [w.split() for w in ('cats dogs owls mice', 'see hear follow',
                                 'me you them us')]
    with open(path, 'w', encoding='ascii') as file:
        for _ in range(n):
            file.write(' '.join(rng.choice(w) for w in words) + '.\n')


def model_of(torch, path, heads):
    """The loss of pieces, and the scores behind a text, from the saved file."""
    from safetensors.torch import load_file  # pylint: disable=C0415
    net = {name[6:]: t.double() for name, t in load_file(path).items()}
    layers = 1 + max(int(m[1]) for m in (
        re.match(r'layers\.(\d+)\.', name) for name in net) if m)

    def norm(name, x):
        return (x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)
                * net[name + '.weight'])

    def turn(x):
        half = x.shape[-1] // 2
        rate = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * rate
        a, b = x[..., :half], x[..., half:]
        c, s = angle.cos(), angle.sin()
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    def forward(tokens):
        n, length = tokens.shape
        x = net['embed_tokens.weight'][tokens]
        for i in range(layers):
            p = f'layers.{i}.'
            h = norm(p + 'input_layernorm', x)
            q, k, v = ((h @ net[f'{p}self_attn.{c}_proj.weight'].T)
                       .view(n, length, heads, -1).transpose(1, 2)
                       for c in 'qkv')
            y = torch.nn.functional.scaled_dot_product_attention(
                turn(q), turn(k), v, is_causal=True)
            y = y.transpose(1, 2).reshape(n, length, -1)
            x = x + y @ net[p + 'self_attn.o_proj.weight'].T
            h = norm(p + 'post_attention_layernorm', x)
            gate, up = (h @ net[f'{p}mlp.{c}_proj.weight'].T
                        for c in ('gate', 'up'))
            y = torch.nn.functional.silu(gate) * up
            x = x + y @ net[p + 'mlp.down_proj.weight'].T
        return norm('norm', x) @ net['embed_tokens.weight'].T

    return forward


def check_saved(tap, folder, text):
    """Against PyTorch: the loss of what was held back, and a greedy text."""
    path = os.path.join(folder, 'net.safetensors')
    context = 24
    done = train('--data', text, '--steps', '30' if SMALL else '150',
                 '--context', str(context), '--dim', '48', '--layers', '2',
                 '--heads', '3', '--save', path, '--temperature', '0',
                 '--prompt', 'cats ', '--sample', '40', '--json',
                 '--device', 'CPU')
    complaints = expect(done, 0) + schema_complaints('demo', done.stdout)
    if complaints:
        tap.check('trained', complaints)
        return
    told = json.loads(done.stdout)
    limit = 3 if SMALL else 1
    tap.check('trained', [] if told['held_loss'] < limit and
              told['loss'] < limit else [str(told)])
    try:
        import torch  # pylint: disable=import-outside-toplevel
        import safetensors  # noqa: F401  pylint: disable=C0415,W0611
    except ImportError:
        tap.skip('as in PyTorch', 'it or safetensors is not installed')
        return
    forward = model_of(torch, path, 3)
    with open(text, 'rb') as file:
        data = torch.tensor(list(file.read()))
    held = data[len(data) - len(data) // 10:]
    n = min(32, len(held) // (context + 1))
    pieces = held[:n * (context + 1)].view(n, context + 1)
    loss = torch.nn.functional.cross_entropy(
        forward(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten()).item()
    tap.check('its loss in PyTorch', [] if abs(loss - told['held_loss']) < 1e-4
              else [f'{told["held_loss"]}, not {loss}'])
    tokens = list(b'cats ')
    for _ in range(40):
        window = tokens[-context:]
        scores = forward(torch.tensor([window]))[0, -1]
        tokens.append(int(scores.argmax()))
    want = bytes(tokens[5:]).decode('latin1')
    tap.check('its text in PyTorch', [] if told['text'] == want
              else [f'{told["text"]!r}, not {want!r}'])


def check_devices(tap, text):
    args = ('--data', text, '--steps', '3', '--batch', '2', '--context', '9',
            '--dim', '12', '--layers', '1', '--heads', '2', '--sample', '3',
            '--json')
    want = train(*args, '--device', 'CPU')
    tap.check('small', expect(want, 0))
    want = json.loads(want.stdout)
    again = json.loads(train(*args, '--device', 'CPU').stdout)
    tap.check('the same again', [] if [again[k] for k in ('loss', 'text')] ==
              [want[k] for k in ('loss', 'text')] else [str(again)])
    for device in DEVICES:
        done = train(*args, '--device', device)
        complaints = expect(done, 0)
        if not complaints:
            got = json.loads(done.stdout)
            complaints = [f'{key}: {got[key]}, not {want[key]}'
                          for key in ('loss', 'held_loss')
                          if not abs(got[key] - want[key]) < 1e-3]
        tap.check(device, complaints)


def check_mistakes(tap, folder, text):
    short = os.path.join(folder, 'short')
    write_text(short, 4)
    small = ('--steps', '1', '--dim', '8', '--layers', '1', '--heads', '1',
             '--device', 'CPU')
    for name, args, code, part in (
            ('no text', (), 2, 'needs --data'),
            ('no such file', ('--data', text + 'x'), 1, 'textx'),
            ('a short text', ('--data', short), 2, 'need 650 at least'),
            ('an odd head', ('--data', text, '--dim', '6', '--heads', '2'), 2,
             'even multiple'),
            ('another ending', ('--data', text, '--save', 'x.gguf'), 2,
             '.safetensors'),
            ('no such device', ('--data', text, '--device', 'none'), 3,
             'none')):
        tap.check(name, expect_json_error(
            train(*small[:2], *args, '--json'), code, part))
    tap.check('no such folder', expect_json_error(
        train(*small, '--data', text, '--json', '--save',
              os.path.join(folder, 'none', 'x.safetensors')), 1, 'none'))
    done = train('--data', text, '--steps', '30', '--dim', '48', '--device',
                 'CPU', '--sample', '5', '--temperature', '0')
    tap.check('the text alone on stdout', expect(done, 0, err='nats a byte')
              or ([] if len(done.stdout) == 6 else [done.stdout]))
    done = train(*small, '--data', text, '--sample', '50', '--json')
    tap.check('any bytes in JSON', expect(done, 0)
              or ([] if json.loads(done.stdout)['text'] else [done.stdout]))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, 'text')
        write_text(text, 1000)
        check_saved(tap, folder, text)
        check_devices(tap, text)
        check_mistakes(tap, folder, text)
    tap.finish()


main()
