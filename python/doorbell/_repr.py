"""How a tensor is printed: its values as NumPy prints them. `print` computes them;
`repr`, which debuggers and interpreters show, computes nothing and has shape and
dtype where values are not there."""
import struct

WIDTH = 75  # of a line
EDGE = 3  # items at each end of a long axis
MOST = 1000  # elements that are shown whole
PRECISION = 8  # digits behind the point
DEFAULTS = ('float32', 'int64', 'bool')


def repr_of(x):
    """For Tensor.__repr__."""
    if not x.is_realized:
        return (f'tensor(shape={x.shape}, dtype={x.dtype.name}, not computed'
                f'{grad(x)})')
    return whole(x, x)


def str_of(x):
    """For Tensor.__str__. The tensor itself keeps its history for gradients."""
    return whole(x, x if x.is_realized else x.detach().realize())


def whole(x, computed):
    name = x.dtype.name
    end = '' if name in DEFAULTS else f', dtype={name}'
    if not x.device.startswith('CPU'):
        end += f", device='{x.device}'"
    end += grad(x)
    text = body(computed, 'tensor(')
    if len(text.rsplit('\n', 1)[-1]) + len(end) + 1 > WIDTH:
        end = end.replace(', ', ',\n       ', 1)
    return f'{text}{end})'


def grad(x):
    return ', requires_grad=True' if x.requires_grad else ''


def body(x, prefix):
    """The values in brackets; lines but the first are indented as `prefix`."""
    if x.numel() == 0:
        shape = '' if x.shape == (0,) else f', shape={x.shape}'
        return f'{prefix}[]{shape}'
    values, shape = x.tolist(), x.shape
    is_cut = x.numel() > MOST
    if is_cut:
        values = cut(values, shape)
    words = words_of([*flat(values, len(shape))], x.dtype.name, len(shape))
    return prefix + brackets(iter(words), values, len(shape), ' ' * len(prefix),
                             1, shape if is_cut else None)


def cut(values, shape):
    """Long axes without their middle."""
    if not shape:
        return values
    if len(values) > 2 * EDGE:
        values = values[:EDGE] + values[-EDGE:]
    return [cut(item, shape[1:]) for item in values]


def flat(values, ndim):
    if ndim == 0:
        yield values
    else:
        for item in values:
            yield from flat(item, ndim - 1)


def brackets(words, values, ndim, indent, depth, full):
    """One axis; `full` has the sizes before something was cut, or is None."""
    if ndim == 0:
        return next(words)
    dots = full is not None and full[0] > 2 * EDGE
    inner = full[1:] if full is not None else None
    parts = [brackets(words, item, ndim - 1, indent + ' ', depth + 1, inner)
             for item in values]
    if dots:
        parts.insert(EDGE, '...')
    if ndim > 1:
        between = ',' + '\n' * (ndim - 1) + indent + ' '
        return '[' + between.join(parts) + ']'
    return '[' + wrapped(parts, indent + ' ', WIDTH - depth + 1) + ']'


def wrapped(parts, indent, width):
    """Words with commas in lines of at most `width` columns."""
    lines, line = [], indent
    for part in parts:
        if len(line) + len(part) > width - 1 and len(line) > len(indent):
            lines.append(line.rstrip())
            line = indent
        line += part + ', '
    lines.append(line[:-2])
    return '\n'.join(lines)[len(indent):]


def words_of(values, dtype, ndim):
    """Numbers as words of one width."""
    if dtype == 'bool':
        return [str(v).rjust(5 if ndim else 0) for v in values]
    if 'int' in dtype:
        words = [str(v) for v in values]
    else:
        return floats(values, dtype)
    width = max(map(len, words))
    return [word.rjust(width) for word in words]


def rounded(value, dtype):
    """A number as a dtype rounds it."""
    if dtype == 'float64':
        return value
    try:
        if dtype == 'float16':
            return struct.unpack('e', struct.pack('e', value))[0]
        single = struct.unpack('f', struct.pack('f', value))[0]
    except OverflowError:
        return float('inf')
    if dtype == 'bfloat16':
        bits = struct.unpack('I', struct.pack('f', single))[0]
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
        return struct.unpack('f', struct.pack('I', bits & 0xffffffff))[0]
    return single


def shortest(value, dtype):
    """(sign, digits, exponent of ten) of the shortest number that is the value
    in its dtype: sign 0.DIGITS times ten to the exponent."""
    text = repr(abs(value))
    if dtype != 'float64':
        for n in range(1, 10):
            text = f'{abs(value):.{n - 1}e}'
            if rounded(float(text), dtype) == abs(value):
                break
    digits, _, power = f'{text}e0'.partition('e')
    power = int(power.split('e')[0])
    whole, _, part = digits.partition('.')
    power += len(whole)
    digits = whole + part
    while digits.startswith('0') and len(digits) > 1:
        digits, power = digits[1:], power - 1
    digits = digits.rstrip('0') or '0'
    if digits == '0':
        power = 1
    sign = '-' if str(value).startswith('-') else ''
    return sign, digits, power


def positional(value, dtype):
    """The parts before and behind the point."""
    sign, digits, power = shortest(value, dtype)
    if len(digits) > power + PRECISION:
        whole, part = f'{abs(value):.{PRECISION}f}'.split('.')
        return sign + whole, part.rstrip('0')
    if power <= 0:
        return sign + '0', '0' * -power + digits if digits != '0' else ''
    return sign + digits[:power].ljust(power, '0'), digits[power:]


def scientific(value, dtype):
    """The digits behind the point."""
    digits = shortest(value, dtype)[1]
    if len(digits) > PRECISION + 1:
        digits = f'{abs(value):.{PRECISION}e}'.split('e')[0].replace('.', '')
        digits = digits.rstrip('0')
    return digits[1:]


def floats(values, dtype):
    finite = [v for v in values if v - v == 0]
    sizes = [abs(v) for v in finite if v != 0]
    special = {i: 'nan' if v != v else 'inf' if v > 0 else '-inf'
               for i, v in enumerate(values) if v - v != 0}
    if sizes and (max(sizes) >= 1e8 or min(sizes) < 1e-4 or
                  max(sizes) / min(sizes) > 1000):
        n = max(len(scientific(v, dtype)) for v in finite)
        words = [f'{v:.{n}e}' if n else f'{v:.0e}'.replace('e', '.e')
                 for v in finite]
        power = max(len(word.split('e')[1]) for word in words)
        words = [f'{a}e{e[0]}{e[1:].rjust(power - 1, "0")}'
                 for a, e in (word.split('e') for word in words)]
    else:
        parts = [positional(v, dtype) for v in finite]
        left = max((len(p[0]) for p in parts), default=0)
        right = max((len(p[1]) for p in parts), default=0)
        words = [f'{a.rjust(left)}.{b.ljust(right)}' for a, b in parts]
    width = max([len(word) for word in words] +
                [len(word) for word in special.values()])
    rest = iter(words)
    return [(special[i] if i in special else next(rest)).rjust(width)
            for i in range(len(values))]


def html_of(x):
    """For Tensor._repr_html_: a table where the values are there and have one or
    two axes, else what repr gives."""
    from html import escape
    facts = f'{x.dtype.name} {list(x.shape)} on {x.device}'
    if not x.is_realized or x.ndim not in (1, 2) or not x.numel():
        return f'<pre>{escape(repr_of(x))}</pre>'
    shape = x.shape
    values = cut(x.tolist(), shape)
    words = iter(words_of([*flat(values, x.ndim)], x.dtype.name, x.ndim))
    rows = []
    for row in values if x.ndim == 2 else [values]:
        cells = [f'<td>{escape(next(words).strip())}</td>' for _ in row]
        if shape[-1] > 2 * EDGE:
            cells.insert(EDGE, '<td>&hellip;</td>')
        rows.append('<tr>' + ''.join(cells) + '</tr>')
    if x.ndim == 2 and shape[0] > 2 * EDGE:
        dots = '<td>&#8942;</td>' * rows[0].count('<td>')
        rows.insert(EDGE, f'<tr>{dots}</tr>')
    return (f'<table><caption>{escape(facts)}</caption>' + ''.join(rows) +
            '</table>')
