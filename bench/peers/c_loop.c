/* Local SGD of softmax regression for a cohort, register-blocked: what a patient C programmer gets out of this machine.

   logits: 2 rows x 10 classes of accumulators in registers; gradient: 2 vectors of features x 10 classes, each row read
   once. V is one vector register as the compiler sees the machine (-march=native). Clients are shared out to the threads
   one by one. c and ci are SCAFFOLD's control variates, NULL for FedAvg. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
typedef float V __attribute__((vector_size(LANES * 4), aligned(4)));
enum { CLASSES = 10, BATCH = 32 };

typedef struct {
    const float *inputs; const int64_t *labels, *index, *start, *size, *ids;
    const float *x, *shift; /* shift [S, CLASSES, features]: c - c_i, or NULL */
    float *out;             /* [S, CLASSES, features]: y_i */
    int features, cohort, steps;
    float lr;
    uint64_t seed;
    atomic_int next;
} Job;

static uint64_t draw(uint64_t *s) { /* splitmix64 */
    uint64_t z = (*s += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static float total(V v) {
    float s = 0;
    for (int k = 0; k < LANES; k++) s += v[k];
    return s;
}

static void two_rows(const float *a, const float *b, const float *w, int n, float *za, float *zb) {
    V sa[CLASSES] = {0}, sb[CLASSES] = {0};
    for (int f = 0; f < n; f += LANES) {
        V va = *(const V *)(a + f), vb = *(const V *)(b + f);
#pragma GCC unroll 10
        for (int c = 0; c < CLASSES; c++) {
            V vw = *(const V *)(w + c * n + f);
            sa[c] += va * vw;
            sb[c] += vb * vw;
        }
    }
    for (int c = 0; c < CLASSES; c++) za[c] = total(sa[c]), zb[c] = total(sb[c]);
}

static void step(const float *const *rows, const int64_t *labels, float *w, const float *shift, int n, float lr) {
    float p[BATCH][CLASSES];
    for (int b = 0; b < BATCH; b += 2) two_rows(rows[b], rows[b + 1], w, n, p[b], p[b + 1]);
    for (int b = 0; b < BATCH; b++) {
        float top = p[b][0], sum = 0;
        for (int c = 1; c < CLASSES; c++) top = p[b][c] > top ? p[b][c] : top;
        for (int c = 0; c < CLASSES; c++) sum += p[b][c] = expf(p[b][c] - top);
        for (int c = 0; c < CLASSES; c++) p[b][c] = (p[b][c] / sum - (c == labels[b])) * (lr / BATCH);
    }
    for (int f = 0; f < n; f += 2 * LANES) { /* n is a multiple of LANES: the last pair may have one vector only */
        int two = f + LANES < n;
        V g0[CLASSES] = {0}, g1[CLASSES] = {0};
        for (int b = 0; b < BATCH; b++) {
            V x0 = *(const V *)(rows[b] + f), x1 = two ? *(const V *)(rows[b] + f + LANES) : x0;
#pragma GCC unroll 10
            for (int c = 0; c < CLASSES; c++) g0[c] += p[b][c] * x0, g1[c] += p[b][c] * x1;
        }
        for (int c = 0; c < CLASSES; c++) {
            float *at = w + c * n + f;
            *(V *)at -= g0[c];
            if (shift) *(V *)at -= lr * *(const V *)(shift + c * n + f);
            if (two) *(V *)(at + LANES) -= g1[c];
            if (two && shift) *(V *)(at + LANES) -= lr * *(const V *)(shift + c * n + f + LANES);
        }
    }
}

static void *work(void *argument) {
    Job *job = argument;
    int n = job->features, k;
    while ((k = atomic_fetch_add(&job->next, 1)) < job->cohort) {
        int64_t client = job->ids[k], first = job->start[client], size = job->size[client];
        uint64_t state = job->seed * 1000003u + (uint64_t)client;
        float *y = job->out + (size_t)k * CLASSES * n;
        memcpy(y, job->x, sizeof(float) * CLASSES * n);
        for (int t = 0; t < job->steps; t++) {
            const float *rows[BATCH];
            int64_t labels[BATCH];
            for (int b = 0; b < BATCH; b++) {
                int64_t row = job->index[first + (int64_t)(((draw(&state) >> 32) * (uint64_t)size) >> 32)];
                rows[b] = job->inputs + row * n;
                labels[b] = job->labels[row];
            }
            step(rows, labels, y, job->shift ? job->shift + (size_t)k * CLASSES * n : 0, n, job->lr);
        }
    }
    return 0;
}

void local_sgd(const float *inputs, const int64_t *labels, const int64_t *index, const int64_t *start, const int64_t *size,
               const int64_t *ids, const float *x, const float *shift, float *out, int features, int cohort, int steps,
               float lr, uint64_t seed, int threads) {
    Job job = {inputs, labels, index, start, size, ids, x, shift, out, features, cohort, steps, lr, seed, 0};
    pthread_t handle[64];
    for (int k = 1; k < threads; k++) pthread_create(&handle[k], 0, work, &job);
    work(&job);
    for (int k = 1; k < threads; k++) pthread_join(handle[k], 0);
}
