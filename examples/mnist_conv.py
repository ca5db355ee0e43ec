"""A conv net learns MNIST's digits, as mnist_conv.c does, to the same bits.
usage: mnist_conv.py IMAGES LABELS STEPS [--losses]"""
import sys

import doorbell as bell
from doorbell import nn, optim

images, labels, n_steps = bell.load(sys.argv[1]), bell.load(sys.argv[2]), int(sys.argv[3])
x, y = images.reshape(-1, 1, 28, 28).contiguous(), labels.contiguous()
n = len(x) // 10 * 9
train_x, train_y = x[:n].contiguous().realize(), y[:n].contiguous().realize()

bell.manual_seed(1)
net = nn.Sequential(
    nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Dropout(0.3), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))
opt = optim.AdamW(net.parameters(), lr=0.003, weight_decay=0)
opt.set_schedule('one_cycle', n_steps)


@bell.jit
def step():
    some = bell.randint(0, n, [100])
    scores = net(train_x.index_select(0, some).float() / 255)
    loss = bell.cross_entropy(scores, train_y.index_select(0, some), ignore_index=-2**63)
    opt.zero_grad()
    loss.backward()
    opt.step(loss)
    return loss


for _ in range(n_steps):
    loss = step()
    if '--losses' in sys.argv:
        print(loss.item().hex())
right = net.eval()(x[n:].float() / 255).argmax(1) == y[n:]
print(f'{right.float().mean().item():.4f} right')
