#!/usr/bin/env python3
"""Calls PyTorch with what `doorbell fuzz DEVICE --each --dump FILE` called, and
compares the results, their gradients, dtypes and shapes.

usage: compare_pytorch.py FILE [--function NAME] [--show N]

Needs PyTorch; neither the library nor its tests do. The exit code is 1 where
something differs that is not in the table `wanted` of compare_pytorch_table.py.
Both sides were judged by definitions before, so the bounds are wide: only
another meaning is to be found.
"""
import argparse
import collections
import json
import sys

import torch

from compare_pytorch_table import ABSENT, RANDOM, WANTED, calls

CALLS = calls(torch)

# Relative to the value, or to the greatest of the tensor where the data is not
# made of special values. Of halves PyTorch computes in float32 here: its own
# kernels round on the way, and it has none for some functions.
BOUNDS = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-3,
          torch.bfloat16: 1.6e-2}
HALVES = (torch.float16, torch.bfloat16)
LACKS = ('not implemented for', 'not supported for', "doesn't support",
         'Promotion for uint')


def to_torch(t):
    dtype = getattr(torch, t['dtype'])
    raw = bytearray.fromhex(t['bytes'])
    if not raw:
        return torch.zeros(t['shape'], dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(t['shape']).clone()


def to_arg(v, leaves):
    if isinstance(v, list):
        return [to_arg(item, leaves) for item in v]
    if not isinstance(v, dict):
        return v
    if 'leaf' in v:
        return leaves[v['leaf']]
    if 'dtype' in v:
        return getattr(torch, v['dtype'])
    return float(v['float'])


def find(name):
    if name in CALLS:
        return CALLS[name]
    for home in (torch.nn.functional, torch, torch.special, torch.linalg):
        if hasattr(home, name):
            return getattr(home, name)
    return getattr(torch.Tensor, name, None)


def flat(result):
    """The tensors of a result, complex ones as pairs."""
    if isinstance(result, torch.Tensor):
        return [torch.view_as_real(result) if result.is_complex() else result]
    if isinstance(result, (list, tuple)):
        return [t for item in result for t in flat(item)]
    return [torch.tensor(result)]


def describe(t):
    return f'{str(t.dtype)[6:]} {tuple(t.shape)}'


def differ(ours, theirs, loose):
    """The flat places where they differ, as far as rounding goes."""
    if not ours.dtype.is_floating_point:
        return (ours != theirs).flatten().nonzero().flatten()
    bound = BOUNDS.get(ours.dtype, 0.25)
    a, b = ours.double().flatten(), theirs.double().flatten()
    scale = torch.maximum(a.abs(), b.abs())
    if loose:
        finite = b[torch.isfinite(b)].abs()
        scale = scale.clamp(min=float(finite.max()) if len(finite) else 0)
    tiny = (torch.finfo(ours.dtype).smallest_normal *
            torch.finfo(ours.dtype).eps * 4)
    same = ((a == b) | (torch.isnan(a) & torch.isnan(b)) |
            ((a - b).abs() <= scale * bound + tiny))
    # the greatest number beside an infinity
    greatest = torch.finfo(ours.dtype).max * (1 - bound)
    same |= (a.abs() >= greatest) & (b.abs() >= greatest) & (a * b > 0)
    return (~same).nonzero().flatten()


def same_signs(name, ours, theirs):
    """Ours with the signs that PyTorch's vectors have, as those are free: a column
    of U and its row of Vh change theirs together. Of a full U or Vh the vectors
    beyond the singular values are any basis: those are not compared."""
    if name not in ('svd', 'eigh') or ours[0].shape != theirs[0].shape:
        return ours
    u, n = (0, ours[1].shape[-1]) if name == 'svd' else (1, ours[0].shape[-1])
    ours = [t.clone() for t in ours]
    right = [t.detach() for t in theirs]
    dots = (ours[u].double() * right[u].double())[..., :n].sum(-2, keepdim=True)
    sign = torch.where(dots < 0, -1.0, 1.0).to(ours[u].dtype)
    ours[u][..., :n] *= sign
    ours[u][..., n:] = right[u][..., n:].to(ours[u].dtype)
    if name == 'svd':
        ours[2][..., :n, :] *= sign.transpose(-1, -2)
        ours[2][..., n:, :] = right[2][..., n:, :].to(ours[2].dtype)
    return ours


class Judge:
    def __init__(self, n_show):
        self.n_show = n_show
        self.n_calls = collections.Counter()
        self.shown = collections.Counter()
        self.unlisted = collections.Counter()
        self.used = set()
        self.absent = set()
        self.n_lacking = 0

    def rows(self, call, part):
        """The rows of the table that are of such a difference."""
        dtype = call['leaves'][0]['dtype'] if call['leaves'] else ''
        text = f"{call['case']} {dtype}"
        for i, (names, parts, only, _, *places) in enumerate(WANTED):
            if (call['function'] in names.split() and part in parts.split() and
                    (not only or any(word in text
                                     for word in only.split(' | ')))):
                yield i, places[0] if places else None

    def excuse(self, call, part, at, ours, theirs, leaves):
        """The places in `at` that no row is about."""
        for i, places in self.rows(call, part):
            rest = at[:0]
            if places:
                where = places(ours, theirs, [t.detach().double() for t in leaves])
                rest = at[~where.expand(ours.shape).flatten()[at]]
            if len(rest) < len(at):
                self.used.add(i)
            at = rest
        return at

    def tell(self, call, part, text):
        """One difference: listed or not."""
        name = call['function']
        dtype = call['leaves'][0]['dtype'] if call['leaves'] else ''
        for i, places in self.rows(call, part):
            if not places:
                self.used.add(i)
                return
        self.unlisted[name] += 1
        if self.shown[name] < self.n_show:
            self.shown[name] += 1
            print(f"{name}({call['case'].strip()}) of {dtype}: {part}: {text}",
                  flush=True)

    def compare(self, call, part, what, ours, theirs, leaves, ignore=None):
        if ours.shape != theirs.shape:
            self.tell(call, 'shape', f'{what}: {describe(ours)}, '
                      f'PyTorch {describe(theirs)}')
            return
        loose = not any(f'@{kind}' in call['case'] for kind in 'xXYUVW')
        at = differ(ours, theirs, loose)
        if ignore is not None and ignore.numel() == ours.numel():
            at = at[~ignore.flatten()[at]]
        if len(at):
            at = self.excuse(call, part, at, ours, theirs, leaves)
        if len(at) == 0:
            return
        k = int(at[0])
        inputs = ', '.join(f'{t.flatten()[k].item():.9g}' for t in leaves
                           if t.numel() == ours.numel())
        self.tell(call, part, f'{what}[{k}] ({inputs}): '
                  f'{ours.flatten()[k].item():.9g}, PyTorch '
                  f'{theirs.flatten()[k].item():.9g}; {len(at)} of '
                  f'{ours.numel()} elements')

    def gradients(self, call, results, leaves):
        for g in call['gradients']:
            of = [leaves[i] for i in g['of']]
            result = results[g['result']]
            if not of:
                continue
            if not result.requires_grad:
                self.tell(call, 'none', 'PyTorch has no gradient')
                continue
            try:
                theirs = torch.autograd.grad(
                    result, of, to_torch(g['adjoint'][0]).to(result.dtype),
                    retain_graph=True, allow_unused=True)
            except (RuntimeError, NotImplementedError) as e:
                self.tell(call, 'none', f'gradient: PyTorch: {str(e)[:110]}')
                continue
            for i, ours, right in zip(g['of'], g['values'], theirs):
                ours = to_torch(ours)
                right = right if right is not None else torch.zeros_like(
                    leaves[i])
                # the slope of a NaN is any number
                self.compare(call, 'gradient', f'gradient {i} ', ours,
                             right.to(ours.dtype), leaves,
                             torch.isnan(result.detach()))

    def apply(self, call, wide, slopes=True):
        """Results and leaves; halves as float32 with `wide`."""
        leaves = [to_torch(t) for t in call['leaves']]
        leaves = [t.float() if wide and t.dtype in HALVES else t
                  for t in leaves]
        if call['gradients'] and slopes:
            of = {i for g in call['gradients'] for i in g['of']}
            for i in of:
                leaves[i].requires_grad_()
        args = {k: to_arg(v, leaves) for k, v in call['args'].items()}
        first = [args.pop(next(iter(args)))] if args else []
        return flat(find(call['function'])(*first, **args)), leaves

    def take(self, call):
        name = call['function']
        if name in ABSENT or find(name) is None:
            self.absent.add(name)
            return
        self.n_calls[name] += 1
        halves = any(t['dtype'] in ('float16', 'bfloat16')
                     for t in call['leaves'])
        try:
            try:
                results, leaves = self.apply(call, halves)
            except Exception as e:
                if 'not differentiable' not in str(e):
                    raise
                results, leaves = self.apply(call, halves, False)
        except Exception as e:
            text = str(e).strip().splitlines()[0][:150]
            if any(word in text for word in LACKS):
                self.n_lacking += 1
            else:
                self.tell(call, 'refused', f'PyTorch: {text}')
            return
        ours = [to_torch(t) for t in call['results']]
        if len(ours) != len(results):
            self.tell(call, 'shape', f'{len(ours)} results, PyTorch '
                      f'{len(results)}')
            return
        dtypes = [t.dtype for t in results]
        if halves:
            try:
                dtypes = [t.dtype for t in self.apply(call, False)[0]]
            except Exception:
                dtypes = [t.dtype for t in ours]
        ours = same_signs(name, ours, results)
        for k, (a, b) in enumerate(zip(ours, results)):
            if a.dtype != dtypes[k]:
                self.tell(call, 'dtype', f'result {k}: {describe(a)}, '
                          f'PyTorch {describe(b)}')
            if name in RANDOM and a.shape == b.shape:
                continue
            self.compare(call, 'value', f'result {k} ', a,
                         b.detach().to(a.dtype), leaves)
        if name not in RANDOM:
            self.gradients(call, results, leaves)

    def end(self):
        print(f'{sum(self.n_calls.values())} calls of {len(self.n_calls)} '
              f'functions, {self.n_lacking} of dtypes that PyTorch lacks; not '
              f'compared: {", ".join(sorted(self.absent))}')
        for i, row in enumerate(WANTED):
            if i not in self.used:
                print('listed, and not seen:', *row[:3])
        print('differences that are not listed:', ', '.join(
            f'{name} {n}' for name, n in sorted(self.unlisted.items()))
              or 'none')
        return 1 if self.unlisted else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('file')
    parser.add_argument('--function')
    parser.add_argument('--show', type=int, default=3)
    options = parser.parse_args()
    judge = Judge(options.show)
    with open(options.file) as lines:
        for line in lines:
            call = json.loads(line)
            if options.function in (None, call['function']):
                judge.take(call)
    return judge.end()


if __name__ == '__main__':
    sys.exit(main())
