"""Optimisers: formulas are torch.optim's, of the papers for LAMB and LARS.

>>> import doorbell
>>> from doorbell import optim
>>> w = doorbell.tensor([3.]).requires_grad_()
>>> opt = optim.SGD([w], lr=0.25)
>>> for _ in range(20):
...     loss = (w * w).sum()
...     opt.zero_grad()
...     loss.backward()
...     opt.step(loss)
>>> w.item() < 1e-5
True

`step` takes what is to be computed in the same run, such as the loss: a loss that
is read later is then not computed a second time.
"""
from doorbell._c import _Optimizer

__all__ = ['Adagrad', 'Adam', 'AdamW', 'LAMB', 'LARS', 'Muon', 'RMSprop', 'SGD']


class SGD(_Optimizer):
    """Moves against the gradient, with momentum where it is given."""

    def __new__(cls, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0,
                nesterov=False):
        return super().__new__(cls, 'sgd', params, lr=lr, momentum=momentum,
                               dampening=dampening, weight_decay=weight_decay,
                               nesterov=nesterov)


class Adam(_Optimizer):
    """Adam; weight decay is added to the gradients."""

    kind = 'adam'

    def __new__(cls, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8,
                weight_decay=0):
        return super().__new__(cls, cls.kind, params, lr=lr, beta1=betas[0],
                               beta2=betas[1], eps=eps,
                               weight_decay=weight_decay)


class AdamW(Adam):
    """Adam; weight decay acts on the weights alone."""

    kind = 'adamw'

    def __new__(cls, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8,
                weight_decay=1e-2):
        return super().__new__(cls, params, lr, betas, eps, weight_decay)


class LAMB(Adam):
    """LAMB (You et al., 2019)."""

    kind = 'lamb'

    def __new__(cls, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6,
                weight_decay=0):
        return super().__new__(cls, params, lr, betas, eps, weight_decay)


class RMSprop(_Optimizer):
    """RMSprop, with momentum and centred where that is asked for."""

    def __new__(cls, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0,
                momentum=0, centered=False):
        return super().__new__(cls, 'rmsprop', params, lr=lr, alpha=alpha,
                               eps=eps, weight_decay=weight_decay,
                               momentum=momentum, centered=centered)


class Adagrad(_Optimizer):
    """Adagrad."""

    def __new__(cls, params, lr=1e-2, lr_decay=0, weight_decay=0,
                initial_accumulator_value=0, eps=1e-10):
        return super().__new__(cls, 'adagrad', params, lr=lr, lr_decay=lr_decay,
                               weight_decay=weight_decay, eps=eps,
                               initial_value=initial_accumulator_value)


class LARS(_Optimizer):
    """LARS (You et al., 2017)."""

    def __new__(cls, params, lr, momentum=0.9, weight_decay=0, trust=1e-3,
                eps=1e-8):
        return super().__new__(cls, 'lars', params, lr=lr, momentum=momentum,
                               weight_decay=weight_decay, trust=trust, eps=eps)


class Muon(_Optimizer):
    """Muon, for matrices."""

    def __new__(cls, params, lr=0.02, momentum=0.95, weight_decay=0,
                nesterov=True, ns_steps=5, eps=1e-7):
        return super().__new__(cls, 'muon', params, lr=lr, momentum=momentum,
                               weight_decay=weight_decay, plain=not nesterov,
                               n_iters=ns_steps, eps=eps)
