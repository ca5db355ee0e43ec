"""Files of tensors."""
from doorbell import _c


def load(path):
    """The tensors of a file by name, a `File`: each is read when it is asked for.
    Kinds: GGUF, safetensors and its index, .npy, .npz, .pth, IDX, CIFAR-10, and
    the weights of .onnx (doorbell.onnx.load gives the model). A file of one tensor
    without a name (.npy, IDX) gives that tensor."""
    file = _c.File(path)
    if list(file.keys()) == ['data']:
        return file['data']
    return file


def save(path, tensors):
    """Writes a dict of tensors, or a module's or optimiser's state_dict, as
    .safetensors or .npz, or one tensor as .npy. The file appears whole or not at
    all."""
    if isinstance(tensors, _c.Tensor):
        tensors = {'data': tensors}
    _c._save(path, {name: x if isinstance(x, _c.Tensor) else
                    _c.tensor(x, dtype=_c.float64)
                    for name, x in tensors.items()})
