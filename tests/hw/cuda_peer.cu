/* What CUDA takes for what `doorbell bench` measures: the same rows under the
 * same names, as a document that `doorbell bench --against` reads. Medians and
 * quartiles, wall-clock time of the host.
 *
 * usage: cuda_peer [SECONDS_PER_ROW]      default: 0.3
 * NO_CUBLAS leaves the matrix products out.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cuda_fp8.h>
#ifndef NO_CUBLAS
#include <cublasLt.h>
#include <cublas_v2.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t error_ = (call);                                           \
        if (error_ != cudaSuccess) {                                           \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static double budget_s = 0.3;
static bool first_row = true;

static double
now_us()
{
    using namespace std::chrono;
    return duration<double, std::micro>(
               steady_clock::now().time_since_epoch())
        .count();
}

/* ---- rows ---------------------------------------------------------------------- */

static double
quantile(const std::vector<double> &sorted, double p)
{
    double at = p * (double)(sorted.size() - 1);
    size_t i = (size_t)at;

    if (i + 1 >= sorted.size())
        return sorted.back();
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

static void
print_row(const char *unit, std::vector<double> samples, const char *fmt, ...)
{
    va_list args;
    char name[64];

    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    std::sort(samples.begin(), samples.end());
    printf("%s    {\n      \"name\": \"%s\",\n      \"median_%s\": %.9g,\n"
           "      \"q1_%s\": %.9g,\n      \"q3_%s\": %.9g,\n"
           "      \"n_runs\": %zu\n    }",
           first_row ? "" : ",\n", name, unit, quantile(samples, 0.5), unit,
           quantile(samples, 0.25), unit, quantile(samples, 0.75),
           samples.size());
    first_row = false;
    fflush(stdout);
}

/* Calls `run`, which gives a sample, until the time is spent. */
template <typename Run>
static std::vector<double>
sample(size_t min, Run run)
{
    std::vector<double> samples;
    double start;

    (void)run();
    (void)run();
    start = now_us();
    while (samples.size() < 4096 &&
           (samples.size() < min || now_us() - start < budget_s * 1e6))
        samples.push_back(run());
    return samples;
}

/* ---- launches -------------------------------------------------------------------- */

__global__ void
store(uint64_t *to, uint64_t value)
{
    *to = value;
}

static void
bench_launches(cudaStream_t stream, uint64_t *to)
{
    print_row("us", sample(200,
                           [&] {
                               double start = now_us();
                               store<<<1, 1, 0, stream>>>(to, 7);
                               CHECK(cudaStreamSynchronize(stream));
                               return now_us() - start;
                           }),
              "launch_wait");
    print_row("ns", sample(20,
                           [&] {
                               double start = now_us(), spent;
                               for (int i = 0; i < 128; i++)
                                   store<<<1, 1, 0, stream>>>(to, 7);
                               spent = now_us() - start;
                               CHECK(cudaStreamSynchronize(stream));
                               return spent * 1e3 / 128;
                           }),
              "launch_fresh_host");
    print_row("thousands_s", sample(5,
                                    [&] {
                                        double start = now_us();
                                        for (int i = 0; i < 4096; i++)
                                            store<<<1, 1, 0, stream>>>(to, 7);
                                        CHECK(cudaStreamSynchronize(stream));
                                        return 4096e3 / (now_us() - start);
                                    }),
              "launch_rate");
}

/* A graph of n kernels, launched and waited for; and the host's time alone
 * for one kernel, which is what a bound stream is compared with. */
static void
bench_graph(cudaStream_t stream, uint64_t *to, int n)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < n; i++)
        store<<<1, 1, 0, stream>>>(to, 7);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    if (n > 1)
        print_row("us", sample(5,
                               [&] {
                                   double start = now_us();
                                   CHECK(cudaGraphLaunch(exec, stream));
                                   CHECK(cudaStreamSynchronize(stream));
                                   return (now_us() - start) / n;
                               }),
                  "replay_%d_per_kernel", n);
    else
        print_row("ns", sample(20,
                               [&] {
                                   double start = now_us(), spent;
                                   for (int i = 0; i < 128; i++)
                                       CHECK(cudaGraphLaunch(exec, stream));
                                   spent = now_us() - start;
                                   CHECK(cudaStreamSynchronize(stream));
                                   return spent * 1e3 / 128;
                               }),
                  "launch_bound_host");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

/* ---- copies, memory --------------------------------------------------------------- */

static void
bench_copy(cudaStream_t stream, void *dst, const void *src, size_t n_bytes,
           cudaMemcpyKind kind, const char *name)
{
    char size[16];

    if (n_bytes >= 1u << 20)
        snprintf(size, sizeof(size), "%zuMiB", n_bytes >> 20);
    else
        snprintf(size, sizeof(size), "%zuKiB", n_bytes >> 10);
    print_row("gb_s", sample(5,
                             [&] {
                                 double start = now_us();
                                 CHECK(cudaMemcpyAsync(dst, src, n_bytes, kind,
                                                       stream));
                                 CHECK(cudaStreamSynchronize(stream));
                                 return (double)n_bytes / 1e3 /
                                        (now_us() - start);
                             }),
              "%s_%s", name, size);
}

static void
bench_copies(cudaStream_t stream)
{
    const size_t max_bytes = 256u << 20, fill_bytes = 512u << 20;
    void *one, *other, *pinned, *pageable = malloc(max_bytes);

    CHECK(cudaMalloc(&one, fill_bytes));
    CHECK(cudaMalloc(&other, max_bytes));
    CHECK(cudaMallocHost(&pinned, max_bytes));
    memset(pinned, 1, max_bytes);
    memset(pageable, 1, max_bytes);
    for (size_t n = 4096; n <= max_bytes; n *= 16) {
        bench_copy(stream, other, one, n, cudaMemcpyDeviceToDevice, "copy_d2d");
        bench_copy(stream, one, pinned, n, cudaMemcpyHostToDevice, "copy_h2d");
        bench_copy(stream, pinned, one, n, cudaMemcpyDeviceToHost, "copy_d2h");
        bench_copy(stream, one, pageable, n, cudaMemcpyHostToDevice, "write");
        bench_copy(stream, pageable, one, n, cudaMemcpyDeviceToHost, "read");
    }
    print_row("gb_s", sample(5,
                             [&] {
                                 double start = now_us();
                                 CHECK(cudaMemsetAsync(one, 0x12, fill_bytes,
                                                       stream));
                                 CHECK(cudaStreamSynchronize(stream));
                                 return (double)fill_bytes / 1e3 /
                                        (now_us() - start);
                             }),
              "fill");
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(other));
    CHECK(cudaFree(one));
    free(pageable);
}

__global__ void
add4(float4 *out, const float4 *x, const float4 *y)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float4 a = x[i], b = y[i];

    out[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static void
bench_add(cudaStream_t stream)
{
    const size_t n = 8192u * 8192u, n_bytes = 4 * n;
    float4 *x, *y, *out;

    CHECK(cudaMalloc(&x, n_bytes));
    CHECK(cudaMalloc(&y, n_bytes));
    CHECK(cudaMalloc(&out, n_bytes));
    CHECK(cudaMemset(x, 0, n_bytes));
    CHECK(cudaMemset(y, 0, n_bytes));
    print_row("gb_s", sample(5,
                             [&] {
                                 double start = now_us();
                                 add4<<<(unsigned)(n / 4 / 256), 256, 0,
                                        stream>>>(out, x, y);
                                 CHECK(cudaStreamSynchronize(stream));
                                 return 3 * (double)n_bytes / 1e3 /
                                        (now_us() - start);
                             }),
              "add");
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    CHECK(cudaFree(out));
}

/* ---- matrix products ---------------------------------------------------------------- */

#ifndef NO_CUBLAS
#define CHECK_BLAS(call)                                                       \
    do {                                                                       \
        cublasStatus_t status_ = (call);                                       \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                \
            fprintf(stderr, "%s: status %d\n", #call, (int)status_);           \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

/* Random values: zeros would flatter the clocks. */
template <typename T>
__global__ void
fill_random(T *data, size_t n, uint32_t seed)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t h = ((uint32_t)i + seed) * 2654435761u;

    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    if (i < n)
        data[i] = (T)((float)(h >> 8) * (1.0f / 16777216.0f));
}

template <typename T>
static void
fill(cudaStream_t stream, T *data, size_t n, uint32_t seed)
{
    fill_random<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(data, n, seed);
}

template <typename T>
static void
bench_gemm(cublasHandle_t blas, cudaStream_t stream, int n, cudaDataType type,
           cublasComputeType_t compute, const char *name)
{
    const size_t count = (size_t)n * n;
    const float one = 1, zero = 0;
    T *a, *b, *c;

    CHECK(cudaMalloc(&a, count * sizeof(T)));
    CHECK(cudaMalloc(&b, count * sizeof(T)));
    CHECK(cudaMalloc(&c, count * sizeof(T)));
    fill(stream, a, count, 1);
    fill(stream, b, count, 2);
    print_row("gflops",
              sample(3,
                     [&] {
                         double start = now_us();
                         CHECK_BLAS(cublasGemmEx(
                             blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a,
                             type, n, b, type, n, &zero, c, type, n,
                             compute, CUBLAS_GEMM_DEFAULT));
                         CHECK(cudaStreamSynchronize(stream));
                         return 2.0 * n * n * n / 1e3 / (now_us() - start);
                     }),
              "gemm_%s_%d", name, n);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
}

/* 8-bit floats to float32: only through cublasLt, with the first factor
 * transposed, and where the card has them; a row is left out where not. */
static void
bench_gemm_e4m3(cudaStream_t stream, int n)
{
    const size_t count = (size_t)n * n, work_bytes = (size_t)32 << 20;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const float one = 1, zero = 0;
    cublasLtMatmulHeuristicResult_t found = {};
    cublasLtMatmulPreference_t preference;
    cublasLtMatrixLayout_t in, out;
    cublasLtMatmulDesc_t desc;
    cublasLtHandle_t lt;
    __nv_fp8_e4m3 *a, *b;
    int n_found = 0;
    void *work;
    float *c;

    CHECK(cudaMalloc(&a, count));
    CHECK(cudaMalloc(&b, count));
    CHECK(cudaMalloc(&c, count * sizeof(*c)));
    CHECK(cudaMalloc(&work, work_bytes));
    fill(stream, a, count, 1);
    fill(stream, b, count, 2);
    CHECK_BLAS(cublasLtCreate(&lt));
    CHECK_BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK_BLAS(cublasLtMatmulDescSetAttribute(desc,
                                              CUBLASLT_MATMUL_DESC_TRANSA,
                                              &transposed, sizeof(transposed)));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&in, CUDA_R_8F_E4M3, n, n, n));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, n, n, n));
    CHECK_BLAS(cublasLtMatmulPreferenceCreate(&preference));
    CHECK_BLAS(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work_bytes,
        sizeof(work_bytes)));
    if (cublasLtMatmulAlgoGetHeuristic(lt, desc, in, in, out, out, preference,
                                       1, &found,
                                       &n_found) == CUBLAS_STATUS_SUCCESS &&
        n_found > 0)
        print_row("gflops",
                  sample(3,
                         [&] {
                             double start = now_us();
                             CHECK_BLAS(cublasLtMatmul(
                                 lt, desc, &one, a, in, b, in, &zero, c, out, c,
                                 out, &found.algo, work, work_bytes, stream));
                             CHECK(cudaStreamSynchronize(stream));
                             return 2.0 * n * n * n / 1e3 / (now_us() - start);
                         }),
                  "gemm_e4m3_%d", n);
    CHECK_BLAS(cublasLtMatmulPreferenceDestroy(preference));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(out));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(in));
    CHECK_BLAS(cublasLtMatmulDescDestroy(desc));
    CHECK_BLAS(cublasLtDestroy(lt));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    CHECK(cudaFree(work));
}

static void
bench_gemms(cudaStream_t stream)
{
    cublasHandle_t blas;

    CHECK_BLAS(cublasCreate(&blas));
    CHECK_BLAS(cublasSetStream(blas, stream));
    for (int n = 1024; n <= 8192; n *= 2)
        bench_gemm<float>(blas, stream, n, CUDA_R_32F, CUBLAS_COMPUTE_32F,
                          "f32");
    for (int n = 1024; n <= 8192; n *= 2)
        bench_gemm<float>(blas, stream, n, CUDA_R_32F,
                          CUBLAS_COMPUTE_32F_FAST_TF32, "tf32");
    for (int n = 1024; n <= 8192; n *= 2)
        bench_gemm<__half>(blas, stream, n, CUDA_R_16F, CUBLAS_COMPUTE_32F,
                           "f16");
    for (int n = 1024; n <= 8192; n *= 2)
        bench_gemm<__nv_bfloat16>(blas, stream, n, CUDA_R_16BF,
                                  CUBLAS_COMPUTE_32F, "bf16");
    for (int n = 1024; n <= 8192; n *= 2)
        bench_gemm_e4m3(stream, n);
    CHECK_BLAS(cublasDestroy(blas));
}
#endif

/* ---- start ---------------------------------------------------------------------------- */

/* From nothing to a first result, in this process: once. */
static uint64_t *
bench_start(double start)
{
    uint64_t *to, value = 0;
    double opened;

    CHECK(cudaFree(NULL));
    opened = now_us() - start;
    CHECK(cudaMalloc(&to, 4096));
    store<<<1, 1>>>(to, 42);
    CHECK(cudaMemcpy(&value, to, sizeof(value), cudaMemcpyDeviceToHost));
    if (value != 42) {
        fprintf(stderr, "the first kernel left %llu\n",
                (unsigned long long)value);
        exit(1);
    }
    print_row("ms", {opened / 1e3}, "open");
    print_row("ms", {(now_us() - start) / 1e3}, "first_result");
    return to;
}

int
main(int argc, char **argv)
{
    double start = now_us();
    cudaDeviceProp properties;
    cudaStream_t stream;
    int version = 0;
    uint64_t *to;

    if (argc > 1)
        budget_s = atof(argv[1]);
    CHECK(cudaRuntimeGetVersion(&version));
    printf("{\n  \"doorbell_bench\": 3,\n  \"device\": \"CUDA\",\n"
           "  \"runtime\": %d,\n  \"simulated\": false,\n  \"rows\": [\n",
           version);
    to = bench_start(start);
    CHECK(cudaStreamCreate(&stream));
    bench_launches(stream, to);
    bench_graph(stream, to, 1);
    bench_graph(stream, to, 10);
    bench_graph(stream, to, 100);
    bench_graph(stream, to, 1000);
    bench_copies(stream);
    bench_add(stream);
#ifndef NO_CUBLAS
    bench_gemms(stream);
#endif
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("\n  ],\n  \"model\": \"%s\",\n  \"arch\": \"sm_%d%d\"\n}\n",
           properties.name, properties.major, properties.minor);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(to));
    return 0;
}
