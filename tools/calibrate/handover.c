// What handing a loop to worker threads and waiting for them costs. As in TensorFlow's pool, a worker looks for work for
// a while before it sleeps.
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static volatile int64_t turn;
static int64_t waiting, stop;
enum { kLooks = 5000 };

static void* worker(void* arg) {
  int64_t seen = 0;
  (void)arg;
  for (;;) {
    for (int i = 0; i < kLooks && turn == seen; ++i) __asm__ volatile("" ::: "memory");
    pthread_mutex_lock(&lock);
    while (turn == seen && !stop) pthread_cond_wait(&work, &lock);
    if (stop) break;
    seen = turn;
    if (--waiting == 0) pthread_cond_signal(&done);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

// Nanoseconds of one handover to `workers` threads, the mean of `calls`.
int64_t tfs_handover(int64_t workers, int64_t calls) {
  pthread_t threads[64];
  struct timespec before, after;
  if (workers > 64) workers = 64;
  turn = stop = 0;
  for (int64_t i = 0; i < workers; ++i) pthread_create(&threads[i], 0, worker, 0);
  clock_gettime(CLOCK_MONOTONIC, &before);
  for (int64_t c = 0; c < calls; ++c) {
    pthread_mutex_lock(&lock);
    waiting = workers;
    ++turn;
    pthread_cond_broadcast(&work);
    while (waiting) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
  }
  clock_gettime(CLOCK_MONOTONIC, &after);
  pthread_mutex_lock(&lock);
  stop = 1;
  pthread_cond_broadcast(&work);
  pthread_mutex_unlock(&lock);
  for (int64_t i = 0; i < workers; ++i) pthread_join(threads[i], 0);
  return ((after.tv_sec - before.tv_sec) * 1000000000ll + (after.tv_nsec - before.tv_nsec)) / calls;
}
