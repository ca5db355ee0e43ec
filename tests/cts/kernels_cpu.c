/* The suite's kernels for the CPU; see programs.h. Compiled alone, with the
 * kernel's calling convention, and without anything from outside. */
#include <stdint.h>

#define KERNEL(name)                                                           \
    void name(const uint64_t *args, const uint32_t grid[3], uint64_t first,    \
              uint64_t last);                                                  \
    void name(const uint64_t *args, const uint32_t grid[3], uint64_t first,    \
              uint64_t last)

#define PTR(type, i) ((type *)(uintptr_t)args[i])

KERNEL(nop)
{
    (void)args, (void)grid, (void)first, (void)last;
}

KERNEL(add_one)
{
    int32_t *out = PTR(int32_t, 0);
    const int32_t *in = PTR(const int32_t, 1);
    uint64_t i;

    (void)grid;
    for (i = first * args[2]; i < last * args[2]; i++)
        out[i] = in[i] + 1;
}

KERNEL(ids)
{
    uint64_t g;

    for (g = first; g < last; g++) {
        uint64_t x = g % grid[0], y = g / grid[0] % grid[1];
        uint64_t z = g / grid[0] / grid[1];
        PTR(int32_t, 0)[g] += (int32_t)(x + 1000 * y + 1000000 * z + 1);
    }
}

KERNEL(values)
{
    (void)grid, (void)first, (void)last;
    PTR(int64_t, 0)
    [0] = (int64_t)args[1] + 3 * (int64_t)args[2] + 5 * (int64_t)args[3];
}

KERNEL(many)
{
    int64_t sum = 0, i;

    (void)grid, (void)first, (void)last;
    for (i = 1; i < 128; i++)
        sum += i * (int64_t)args[i];
    PTR(int64_t, 0)[0] = sum;
}

KERNEL(spin)
{
    (void)grid, (void)first, (void)last;
    while (*PTR(volatile int32_t, 0) == 0) {
    }
}

KERNEL(work)
{
    (void)grid;
    for (; first < last; first++) {
        uint32_t x = (uint32_t)first;
        uint64_t i;
        for (i = 0; i < args[1]; i++)
            x = (x ^ x >> 15) * 1664525u + 1013904223u;
        PTR(uint32_t, 0)[first] = x;
    }
}

KERNEL(poke)
{
    (void)grid;
    for (; first < last; first++) {
        if (first == args[1])
            *PTR(volatile int32_t, 2) = 1;
    }
}

KERNEL(divide)
{
    volatile int32_t a = (int32_t)args[1], b = (int32_t)args[2];

    (void)grid, (void)first, (void)last;
    PTR(int32_t, 0)[0] = a / b;
}

/* Where the stack is of the thread that runs a group. */
KERNEL(where)
{
    (void)grid;
    for (; first < last; first++)
        PTR(uintptr_t, 0)[first] = (uintptr_t)__builtin_frame_address(0);
}

KERNEL(quotient)
{
    volatile double a, b;

    (void)grid, (void)first, (void)last;
    a = *PTR(double, 1);
    b = *PTR(double, 2);
    *PTR(double, 0) = a / b;
}

KERNEL(trap)
{
    (void)args, (void)grid, (void)first, (void)last;
    __builtin_trap();
}

/* Ends when as many groups have begun as there are. */
KERNEL(meet)
{
    for (; first < last; first++) {
        __atomic_fetch_add(PTR(uint32_t, 0), 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(PTR(uint32_t, 0), __ATOMIC_SEQ_CST) < grid[0]) {
        }
    }
}

/* What makes a compiler emit every kind of section and relocation. */
static const int32_t squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
int32_t cts_counter = 41;
int32_t cts_zeros[1024];
static const int32_t *const pointers[2] = {&squares[3], &cts_counter};

__attribute__((noinline, visibility("default"))) int32_t cts_pick(int64_t n);

int32_t
cts_pick(int64_t n)
{
    switch (n) {
    case 0:
        return squares[7];
    case 1:
        return cts_counter;
    case 2:
        return *pointers[0];
    case 3:
        return *pointers[1] + 1;
    case 4:
        return cts_zeros[1023];
    case 5:
        return (int32_t)sizeof(squares);
    default:
        return -1;
    }
}

KERNEL(sections)
{
    int64_t i;

    (void)grid, (void)first, (void)last;
    for (i = 0; i < 7; i++)
        PTR(int32_t, 0)[i] = cts_pick(i);
    cts_zeros[1023] += 1;
}

KERNEL(stack)
{
    volatile int32_t array[32768];
    int32_t i, sum = 0;

    (void)grid, (void)first, (void)last;
    for (i = 0; i < 32768; i++)
        array[i] = i & 3;
    for (i = 0; i < 32768; i++)
        sum += array[i];
    PTR(int32_t, 0)[0] = sum;
}

/* An entry that needs what nobody provides. */
#ifdef WITH_UNDEFINED
void outside(int32_t *out);

KERNEL(undefined)
{
    (void)grid, (void)first, (void)last;
    outside(PTR(int32_t, 0));
}
#endif
