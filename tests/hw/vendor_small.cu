/* A small program for the cassette of a vendor's own runtime, CUDA or HIP: one
 * kernel with shared and local memory, one copy each way, one launch of a graph
 * with two kernels. Prints what came out; exits with 0 if it is right.
 *
 * usage: vendor_small
 */
#ifdef __HIP__
#include <hip/hip_runtime.h>
#define cudaError_t hipError_t
#define cudaFree hipFree
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaGraphExecDestroy hipGraphExecDestroy
#define cudaGraphExec_t hipGraphExec_t
#define cudaGraphDestroy hipGraphDestroy
#define cudaGraphInstantiate(exec, graph, flags)                               \
    hipGraphInstantiateWithFlags(exec, graph, flags)
#define cudaGraphLaunch hipGraphLaunch
#define cudaGraph_t hipGraph_t
#define cudaMalloc hipMalloc
#define cudaMemcpy hipMemcpy
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemcpyHostToDevice hipMemcpyHostToDevice
#define cudaStreamBeginCapture hipStreamBeginCapture
#define cudaStreamCaptureModeGlobal hipStreamCaptureModeGlobal
#define cudaStreamCreate hipStreamCreate
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamEndCapture hipStreamEndCapture
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStream_t hipStream_t
#define cudaSuccess hipSuccess
#else
#include <cuda_runtime.h>
#endif

#include <cstdio>
#include <cstdlib>

#define N 1024

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t error_ = (call);                                           \
        if (error_ != cudaSuccess) {                                           \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

/* Reverses each block through shared memory and adds a sum over a local array
 * that the compiler cannot keep in registers. */
__global__ void
both_memories(int *out, const int *in, int step)
{
    __shared__ int tile[256];
    volatile int array[64];
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), sum = 0;

    for (int k = 0; k < 64; k++)
        array[k] = k + step;
    for (int k = 0; k < 64; k++)
        sum += array[(k * step) & 63];
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[blockDim.x - 1 - threadIdx.x] + sum;
}

static void
launch_graph(int *out, const int *in)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    both_memories<<<N / 256, 256, 0, stream>>>(out, in, 3);
    both_memories<<<N / 256, 256, 0, stream>>>(out, in, 5);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static int
count_wrong(const int *host, int step)
{
    int sum = 0, n_wrong = 0;

    for (int k = 0; k < 64; k++)
        sum += ((k * step) & 63) + step;
    for (int i = 0; i < N; i++)
        n_wrong += host[i] != i / 256 * 256 + 255 - i % 256 + sum;
    return n_wrong;
}

int
main()
{
    static int host[N];
    int *in, *out, n_wrong;

    for (int i = 0; i < N; i++)
        host[i] = i;
    CHECK(cudaMalloc(&in, sizeof(host)));
    CHECK(cudaMalloc(&out, sizeof(host)));
    CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
    both_memories<<<N / 256, 256>>>(out, in, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
    n_wrong = count_wrong(host, 1);
    launch_graph(out, in);
    CHECK(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
    n_wrong += count_wrong(host, 5);
    printf("vendor_small: %d of %d values are wrong\n", n_wrong, 2 * N);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
    return n_wrong != 0;
}
