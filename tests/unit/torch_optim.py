#!/usr/bin/env python3
"""Prints torch_optim.h: what torch.optim makes of test_optim.c's parameters.

usage: torch_optim.py > torch_optim.h      (PyTorch 2)
"""
import torch
from torch import optim
from torch.optim import lr_scheduler as rates

STEPS = 6
MATRIX = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]]
VECTOR = [1.0, -2.0, 0.125, 0.6]


def run(make, group=None, clip_norm=0, clip_value=0, schedule=None):
    """The parameters after the first step and after the last one."""
    a = torch.tensor(MATRIX, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(VECTOR, dtype=torch.float64, requires_grad=True)
    if group:
        opt = make([{'params': [a]}, dict(params=[b], **group)])
    else:
        opt = make([a, b])
    slow = schedule(opt) if schedule else None
    seen = []
    for step in range(STEPS):
        opt.zero_grad()
        weight = torch.arange(1, 7, dtype=torch.float64).reshape(3, 2)
        loss = (torch.cos(a) * weight).sum() + torch.sin(b).sum() * (step + 1)
        loss.backward()
        if clip_value:
            torch.nn.utils.clip_grad_value_([a, b], clip_value)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_([a, b], clip_norm)
        opt.step()
        if slow:
            slow.step()
        if step in (0, STEPS - 1):
            seen += a.flatten().tolist() + b.tolist()
    return seen


def adam(params):
    return optim.Adam(params, lr=0.1, betas=(0.8, 0.95), eps=1e-3,
                      weight_decay=0.02)


def adamw(params):
    return optim.AdamW(params, lr=0.1, weight_decay=0.05)


def sgd(params):
    return optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True,
                     weight_decay=0.01)


def warm_cosine(opt):
    return rates.SequentialLR(
        opt, [rates.LinearLR(opt, 0.1, 1.0, 3),
              rates.CosineAnnealingLR(opt, 3, eta_min=0.005)], [3])


ROWS = [
    ('sgd', run(sgd)),
    ('sgd_dampened', run(lambda p: optim.SGD(p, lr=0.05, momentum=0.8,
                                             dampening=0.3))),
    ('adam', run(adam)),
    ('adamw', run(adamw)),
    ('rmsprop', run(lambda p: optim.RMSprop(
        p, lr=0.01, alpha=0.9, eps=1e-3, weight_decay=0.03, momentum=0.5,
        centered=True))),
    ('adagrad', run(lambda p: optim.Adagrad(
        p, lr=0.1, lr_decay=0.2, weight_decay=0.01,
        initial_accumulator_value=0.3))),
    ('groups', run(adamw, group={'lr': 0.02, 'weight_decay': 0.5})),
    ('clip_norm', run(sgd, clip_norm=1.5)),
    ('clip_value', run(sgd, clip_value=0.7)),
    ('step', run(sgd, schedule=lambda o: rates.StepLR(o, 2, gamma=0.5))),
    ('cosine', run(sgd, schedule=lambda o: rates.CosineAnnealingLR(
        o, 5, eta_min=0.005))),
    ('one_cycle', run(sgd, schedule=lambda o: rates.OneCycleLR(
        o, 0.05, total_steps=8, cycle_momentum=False))),
    ('warm_up', run(sgd, schedule=warm_cosine)),
]

print(f"""/* Printed by torch_optim.py with PyTorch {torch.__version__.split('+')[0]}. */
#ifndef BELL_TESTS_TORCH_OPTIM_H
#define BELL_TESTS_TORCH_OPTIM_H

/* Ten elements after the first step, ten after the last. */
struct torch_row {{
    const char *name;
    double values[20];
}};

static const struct torch_row torch_rows[] = {{""")
for name, values in ROWS:
    print(f'    {{"{name}",\n     {{', end='')
    print(',\n      '.join(', '.join(repr(v) for v in values[i:i + 3])
                          for i in range(0, 20, 3)), end='}},\n')
print('};\n\n#endif')
