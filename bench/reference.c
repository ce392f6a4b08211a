/* The fixed workload that is timed before and after every contestant: softmax regression's SGD on rows made up here, the
   same on every thread, plain C. It prints the seconds of the slowest of `threads` threads. Its speed tells how busy the
   machine is, and nothing else.   usage: reference THREADS STEPS */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 4096, FEATURES = 784, CLASSES = 10, BATCH = 32 };
static float (*inputs)[FEATURES];
static int steps;

static void *work(void *result) {
    float (*w)[FEATURES] = calloc(CLASSES, sizeof *w);
    unsigned state = 1;
    for (int t = 0; t < steps; t++) {
        for (int b = 0; b < BATCH; b++) {
            state = state * 1664525u + 1013904223u;
            unsigned row = (state >> 8) % ROWS;
            const float *x = inputs[row];
            float p[CLASSES], sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                float z = 0;
                for (int f = 0; f < FEATURES; f++) z += w[c][f] * x[f];
                sum += p[c] = expf(z);
            }
            for (int c = 0; c < CLASSES; c++) {
                float g = 1e-3f * (p[c] / sum - (c == (int)(row % CLASSES)));
                for (int f = 0; f < FEATURES; f++) w[c][f] -= g * x[f];
            }
        }
    }
    *(float *)result = w[0][0];
    free(w);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    steps = argc > 2 ? atoi(argv[2]) : 1000;
    inputs = malloc(ROWS * sizeof *inputs);
    for (int i = 0; i < ROWS * FEATURES; i++) inputs[0][i] = (float)((i % 65536 * 7919) % 255) / 255 - 0.5f;
    pthread_t handle[64];
    float out[64];
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int k = 0; k < threads && k < 64; k++) pthread_create(&handle[k], NULL, work, &out[k]);
    for (int k = 0; k < threads && k < 64; k++) pthread_join(handle[k], NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.6f %g\n", (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec), out[0]);
    return 0;
}
