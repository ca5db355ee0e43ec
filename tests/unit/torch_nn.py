#!/usr/bin/env python3
"""Prints torch_nn.h: what torch.nn's layers make of test_nn.c's inputs.

usage: torch_nn.py > torch_nn.h      (PyTorch 2)

Parameter number p of a layer has the elements 0.4 sin(p + 1 + 0.37 i), the
input sin(0.5 + 0.91 i). The loss is sum_i y[i] cos(0.3 i). A row has y, the
input's gradient and, of each parameter's gradient g, sum_i g[i] cos(0.2 i).
"""
import torch
from torch import nn


def wave(shape, scale, first, step):
    n = torch.tensor(shape).prod().item() if shape else 1
    i = torch.arange(n, dtype=torch.float64)
    return (scale * torch.sin(first + step * i)).reshape(shape)


def run(layer, shape, forward=None, order=None):
    """The row of a layer; `order` lists slices of parameters by number."""
    layer = layer.double().train()
    parts = order(layer) if order else [(p, slice(None))
                                        for p in layer.parameters()]
    with torch.no_grad():
        for k, (p, rows) in enumerate(parts):
            p[rows] = wave(p[rows].shape, 0.4, k + 1, 0.37)
    x = wave(shape, 1, 0.5, 0.91).requires_grad_()
    y = forward(layer, x) if forward else layer(x)
    i = torch.arange(y.numel(), dtype=torch.float64)
    (y.flatten() * torch.cos(0.3 * i)).sum().backward()
    sums = []
    for p, rows in parts:
        g = p.grad[rows].flatten()
        i = torch.arange(g.numel(), dtype=torch.float64)
        sums.append((g * torch.cos(0.2 * i)).sum().item())
    return y.flatten().tolist() + x.grad.flatten().tolist() + sums


def heads(attention):
    """The parameters in the order of wq, wk, wv, wo."""
    size = attention.embed_dim
    parts = []
    for k in range(3):
        rows = slice(k * size, (k + 1) * size)
        parts += [(attention.in_proj_weight, rows),
                  (attention.in_proj_bias, rows)]
    out = attention.out_proj
    return parts + [(out.weight, slice(None)), (out.bias, slice(None))]


def encoder(layer):
    parts = heads(layer.self_attn)
    for part in (layer.linear1, layer.linear2, layer.norm1, layer.norm2):
        parts += [(part.weight, slice(None)), (part.bias, slice(None))]
    return parts


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def with_state(layer, x):
    """The output, then what the cells end with."""
    y, state = layer(x)
    state = state if isinstance(state, tuple) else (state,)
    return torch.cat([y.flatten()] + [s.flatten() for s in state])


def two_steps(cell, x):
    state = cell(x[0])
    state = cell(x[1], state)
    return torch.cat(state) if isinstance(state, tuple) else state


ROWS = {
    'conv1d': run(nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2),
                  [2, 2, 5]),
    'conv3d': run(nn.Conv3d(2, 4, (3, 2, 1), stride=(2, 1, 1),
                            padding=(1, 0, 1), groups=2), [1, 2, 3, 4, 2]),
    'conv_transpose1d': run(
        nn.ConvTranspose1d(3, 2, 4, stride=3, padding=1, dilation=2,
                           output_padding=1, bias=False), [2, 3, 4]),
    'conv_transpose2d': run(
        nn.ConvTranspose2d(4, 2, (3, 2), stride=2, padding=1, groups=2,
                           output_padding=1), [1, 4, 2, 3]),
    'conv_transpose3d': run(
        nn.ConvTranspose3d(2, 4, (1, 3, 2), stride=(1, 2, 2),
                           padding=(0, 1, 0), groups=2), [1, 2, 2, 3, 2]),
    'group_norm': run(nn.GroupNorm(2, 4), [2, 4, 3]),
    'instance_norm': run(nn.InstanceNorm1d(3, affine=True), [2, 3, 4]),
    'rms_norm': run(nn.RMSNorm(5, eps=1e-6), [3, 5]),
    'rms_norm_two': run(nn.RMSNorm((3, 2), eps=1e-6), [4, 3, 2]),
    'batch_norm': run(nn.BatchNorm1d(3), [4, 3, 2]),
    'lstm_cell': run(nn.LSTMCell(3, 2), [2, 2, 3], two_steps),
    'gru_cell': run(nn.GRUCell(3, 2), [2, 2, 3], two_steps),
    'lstm': run(nn.LSTM(3, 2), [5, 2, 3], with_state),
    'lstm_both': run(nn.LSTM(2, 2, num_layers=2, bidirectional=True,
                             batch_first=True), [2, 3, 2], with_state),
    'gru': run(nn.GRU(3, 2, num_layers=2, bias=False), [4, 1, 3],
               with_state),
    'gru_long': run(nn.GRU(1, 1), [20, 1, 1], with_state),
    'attention': run(nn.MultiheadAttention(4, 2, batch_first=True),
                     [2, 3, 4], lambda m, x: m(x, x, x)[0], heads),
    'attention_causal': run(
        nn.MultiheadAttention(6, 3, batch_first=True), [1, 4, 6],
        lambda m, x: m(x, x, x, attn_mask=causal(4))[0], heads),
    'transformer': run(
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0, batch_first=True),
        [2, 3, 4], None, encoder),
    'transformer_first': run(
        nn.TransformerEncoderLayer(4, 2, 6, dropout=0, activation='gelu',
                                   batch_first=True, norm_first=True),
        [2, 3, 4], lambda m, x: m(x, src_mask=causal(3)), encoder),
}

print(f"""/* Printed by torch_nn.py with PyTorch {torch.__version__.split('+')[0]}. */
#ifndef BELL_TESTS_TORCH_NN_H
#define BELL_TESTS_TORCH_NN_H

#include <stdint.h>
""")
for name, values in ROWS.items():
    print(f'static const double torch_{name}[] = {{')
    for i in range(0, len(values), 4):
        print('    ' + ', '.join(f'{v:.10g}' for v in values[i:i + 4]) + ',')
    print('};')
print("""
static const struct torch_layer {
    const char *name;
    const double *values;
    uint32_t n;
} torch_layers[] = {""")
for name in ROWS:
    print(f'    {{"{name}", torch_{name},\n'
          f'     sizeof(torch_{name}) / sizeof(double)}},')
print('};\n\n#endif')
