// Runs CUDA launches on a CPU: each thread of the blocks that are resident is a fibre, and runs until it waits for others
// or ends. Who goes on then is the adversary's choice (Order). A launch fails if nobody can go on. Shared memory starts as
// NaN. Where threads need no barrier for what they do, all orders give the same.
#include "fibres.h"

#include <link.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr int MOST_LANES = 64, POISON = 0xff;
constexpr unsigned int MOST_PARTIAL = 16;
constexpr size_t STACK = 1 << 16;

// Who runs next of those that can. AHEAD: the first thread of the first block, as far as it gets. BEHIND: the last one of
// the last. ABREAST: the first threads of all blocks before the second ones. SHUFFLED: by chance.
// Asynchronous copies happen at once (AHEAD), when they are awaited (BEHIND, ABREAST), or either (SHUFFLED).
enum Order { AHEAD, BEHIND, ABREAST, SHUFFLED };

struct Copy { void* to; const void* from; bool there; };
enum State { READY, AT_BLOCK_BARRIER, AT_PARTIAL_BARRIER, AT_EXCHANGE, AT_COUNTER, AT_CLUSTER_BARRIER, ENDED };
const char* const WHERE[] = {"can run", "at a barrier of the block", "at a barrier of some of the block's threads",
                             "at an exchange of the warp", "at a counter", "at a barrier of the cluster", "ended"};

struct Block;
struct Thread {
  Block* block;
  unsigned int index;
  State state = READY;
  char* stack = nullptr;  // none before it first runs
  jmp_buf registers;
  int turn = 0;
  unsigned int partial = 0;  // the number of the barrier that it waits at
  int together = 0;  // what that gave
  long long seen = -1;  // additions to counters when it last read one
  int cluster_turn = -1;  // barriers of the cluster when it last arrived
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};
struct Warp { int arrived = 0; unsigned char words[2][MOST_LANES][TFS_LANE_BYTES]; };
struct Partial { unsigned int threads = 0, arrived = 0; int holds = 0; };
struct Cluster { unsigned int arrived = 0; int barriers = 0; };
struct Block {
  unsigned int number;
  std::shared_ptr<Cluster> cluster;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  unsigned int waiting = 0, ended = 0;
  Partial partial[MOST_PARTIAL];
  std::vector<unsigned char> memory;  // its shared memory while another block runs; empty before it first runs
};

// The kernel library's thread-local variables are its shared memory.
struct Region { unsigned char* begin; size_t bytes; };

struct Launch {
  void (*kernel)(const uint64_t*);
  const uint64_t* words;
  unsigned int grid, first, threads, warp, cluster, resident;
  Order order;
  std::mt19937_64 random;
  std::vector<Region> shared;
  std::map<unsigned int, std::unique_ptr<Block>> blocks;
  std::set<std::tuple<uint64_t, uint64_t, Thread*>> ready;
  long long additions = 0;
  Block* loaded = nullptr;
  Thread* current = nullptr;
  std::string error;
};

Launch* launch;
bool may_end = false;
struct { unsigned int block_x, block_y, grid_x, grid_y; } shape;
uint3 place(unsigned int number, unsigned int x, unsigned int y) {
  return x ? uint3{number % x, number / x % y, number / (x * y)} : uint3{number, 0, 0};
}
jmp_buf scheduler;
ucontext_t entry;
std::vector<char*> stacks;

void make_ready(Thread& thread) {
  thread.state = READY;
  const uint64_t block = thread.block->number, index = thread.index;
  switch (launch->order) {
    case AHEAD: launch->ready.emplace(block, index, &thread); break;
    case BEHIND: launch->ready.emplace(~block, ~index, &thread); break;
    case ABREAST: launch->ready.emplace(index, block, &thread); break;
    case SHUFFLED: launch->ready.emplace(launch->random(), 0, &thread);
  }
}

void go_on() {
  if (!_setjmp(launch->current->registers)) _longjmp(scheduler, 1);
}
void wait(State where) {
  launch->current->state = where;
  go_on();
}
void wake(std::vector<Thread>& threads, State where) {
  for (Thread& thread : threads)
    if (thread.state == where) make_ready(thread);
}
void wake_blocks(State where, const Cluster* cluster) {
  for (auto& [number, block] : launch->blocks)
    if (!cluster || block->cluster.get() == cluster) wake(block->threads, where);
}

// Shared memory.
void save() {
  Block& block = *launch->loaded;
  size_t at = 0;
  for (const Region& r : launch->shared) { memcpy(block.memory.data() + at, r.begin, r.bytes); at += r.bytes; }
}
void load(Block& block) {
  if (launch->loaded == &block) return;
  if (launch->loaded) save();
  size_t bytes = 0, at = 0;
  for (const Region& r : launch->shared) bytes += r.bytes;
  if (block.memory.empty()) block.memory.assign(bytes, POISON);
  for (const Region& r : launch->shared) { memcpy(r.begin, block.memory.data() + at, r.bytes); at += r.bytes; }
  launch->loaded = &block;
}

void move(const Copy& c) {
  if ((uintptr_t)c.to % 16 || (uintptr_t)c.from % 16) tfs_fail("an asynchronous copy is not aligned");
  if (c.there) memcpy(c.to, c.from, 16); else memset(c.to, 0, 16);
}

void pass_if_all_are_here(Block& block) {
  if (!block.waiting || block.waiting + block.ended < launch->threads) return;
  block.waiting = 0;
  wake(block.threads, AT_BLOCK_BARRIER);
}

void run_thread() {
  launch->kernel(launch->words);
  Thread& thread = *launch->current;
  Block& block = *thread.block;
  if (block.waiting && !may_end) tfs_fail("a thread ends while others wait at a barrier of the block");
  thread.state = ENDED;
  ++block.ended;
  pass_if_all_are_here(block);
  _longjmp(scheduler, 1);
}

void start(Thread& thread) {
  if (stacks.empty()) {
    void* memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) tfs_fail("no memory for stacks");
    stacks.push_back((char*)memory);
  }
  thread.stack = stacks.back();
  stacks.pop_back();
  getcontext(&entry);
  entry.uc_stack.ss_sp = thread.stack;
  entry.uc_stack.ss_size = STACK;
  entry.uc_link = nullptr;
  makecontext(&entry, run_thread, 0);
  setcontext(&entry);
}

void admit(unsigned int first) {  // a cluster
  auto cluster = std::make_shared<Cluster>();
  for (unsigned int number = first; number < first + launch->cluster; ++number) {
    auto block = std::make_unique<Block>();
    block->number = number;
    block->cluster = cluster;
    block->threads = std::vector<Thread>(launch->threads);
    block->warps = std::vector<Warp>((launch->threads + launch->warp - 1) / launch->warp);
    for (unsigned int i = 0; i < launch->threads; ++i) {
      block->threads[i].block = block.get();
      block->threads[i].index = i;
      make_ready(block->threads[i]);
    }
    launch->blocks[number] = std::move(block);
  }
}

// Forgets a cluster all of whose blocks have ended; whether it has.
bool forget(unsigned int first) {
  for (unsigned int i = first; i < first + launch->cluster; ++i)
    if (launch->blocks.at(i)->ended < launch->threads) return false;
  for (unsigned int i = first; i < first + launch->cluster; ++i) {
    Block& block = *launch->blocks.at(i);
    for (Thread& thread : block.threads) stacks.push_back(thread.stack);
    if (launch->loaded == &block) launch->loaded = nullptr;
    launch->blocks.erase(i);
  }
  return true;
}

std::string deadlock() {
  std::map<State, int> counts;
  for (auto& [number, block] : launch->blocks)
    for (Thread& thread : block->threads) ++counts[thread.state];
  std::string text = "deadlock:";
  for (auto [state, count] : counts) text += " " + std::to_string(count) + " threads " + WHERE[state] + ";";
  return text;
}

void step() {
  const auto first = launch->ready.begin();
  Thread& thread = *std::get<2>(*first);
  launch->ready.erase(first);
  load(*thread.block);
  launch->current = &thread;
  threadIdx = place(thread.index, shape.block_x, shape.block_y);
  blockIdx = place(thread.block->number, shape.grid_x, shape.grid_y);
  if (_setjmp(scheduler)) return;
  if (!thread.stack) start(thread);
  _longjmp(thread.registers, 1);
}

void run() {
  std::vector<unsigned int> waiting((launch->grid - launch->first) / launch->cluster);
  std::iota(waiting.begin(), waiting.end(), launch->first / launch->cluster);
  if (launch->order == BEHIND) std::reverse(waiting.begin(), waiting.end());
  if (launch->order == SHUFFLED) std::shuffle(waiting.begin(), waiting.end(), launch->random);
  std::reverse(waiting.begin(), waiting.end());
  for (;;) {
    while (!waiting.empty() && launch->blocks.size() < launch->resident) {
      admit(waiting.back() * launch->cluster);
      waiting.pop_back();
    }
    if (launch->blocks.empty()) return;
    if (launch->ready.empty()) { launch->error = deadlock(); return; }
    step();
    if (!launch->error.empty()) return;
    if (launch->current->state == ENDED) forget(launch->current->block->number / launch->cluster * launch->cluster);
  }
}

struct Search { unsigned char* inside; Region found; };
int find_region(dl_phdr_info* info, size_t, void* data) {
  auto* search = (Search*)data;
  auto* begin = (unsigned char*)info->dlpi_tls_data;
  for (int i = 0; begin && i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_TLS || search->inside < begin || search->inside >= begin + header.p_memsz) continue;
    search->found = {begin, header.p_memsz};
    return 1;
  }
  return 0;
}

}  // namespace

extern "C" {
uint3 threadIdx, blockIdx, blockDim, gridDim;

void tfs_shape(unsigned int block_x, unsigned int block_y, unsigned int grid_x, unsigned int grid_y) {
  shape = {block_x, block_y, grid_x, grid_y};
}
void tfs_let_threads_end(bool may) { may_end = may; }
unsigned int tfs_thread_number() { return launch->current->index; }

void tfs_fail(const char* what) {
  launch->error = what;
  _longjmp(scheduler, 1);
}

void tfs_block_barrier() {
  Block& block = *launch->current->block;
  if (block.ended && !may_end) tfs_fail("a thread waits at a barrier of the block that others missed");
  launch->current->state = AT_BLOCK_BARRIER;
  ++block.waiting;
  pass_if_all_are_here(block);
  go_on();
}

int tfs_partial_barrier(unsigned int number, unsigned int threads, int value, tfs_together how) {
  Thread& thread = *launch->current;
  Block& block = *thread.block;
  if (number >= MOST_PARTIAL) tfs_fail("a block has no barrier of this number");
  if (!threads || threads % launch->warp) tfs_fail("a barrier is of whole warps");
  Partial& barrier = block.partial[number];
  if (barrier.arrived && barrier.threads != threads) tfs_fail("threads wait at one barrier for different numbers of threads");
  barrier.threads = threads;
  barrier.holds += value != 0;
  thread.state = AT_PARTIAL_BARRIER;
  thread.partial = number;
  if (++barrier.arrived == threads) {
    const int all[] = {barrier.holds, barrier.holds == (int)threads, barrier.holds > 0};
    barrier = {};
    for (Thread& other : block.threads)
      if (other.state == AT_PARTIAL_BARRIER && other.partial == number) {
        other.together = all[how];
        make_ready(other);
      }
  }
  go_on();
  return launch->current->together;
}

const unsigned char (*tfs_exchange(const void* own, int size))[TFS_LANE_BYTES] {
  Thread& thread = *launch->current;
  const unsigned int number = thread.index / launch->warp, first = number * launch->warp;
  const unsigned int lanes = std::min<unsigned int>(launch->warp, launch->threads - first);
  Warp& warp = thread.block->warps[number];
  const int turn = thread.turn ^= 1;
  memcpy(warp.words[turn][thread.index - first], own, size);
  thread.state = AT_EXCHANGE;
  if (++warp.arrived == (int)lanes) {
    warp.arrived = 0;
    for (unsigned int i = first; i < first + lanes; ++i) {
      if (thread.block->threads[i].state != AT_EXCHANGE) tfs_fail("lanes of a warp exchange in different places");
      make_ready(thread.block->threads[i]);
    }
  }
  go_on();
  return warp.words[turn];
}

unsigned int tfs_counter_add(unsigned int* counter, unsigned int add) {
  const unsigned int before = *counter;
  *counter += add;
  ++launch->additions;
  wake_blocks(AT_COUNTER, nullptr);
  make_ready(*launch->current);
  go_on();
  return before;
}
unsigned int tfs_counter_read(const unsigned int* counter) {
  if (launch->current->seen == launch->additions) wait(AT_COUNTER);
  launch->current->seen = launch->additions;
  return *counter;
}

void tfs_cluster_arrive() {
  Thread& thread = *launch->current;
  Cluster& cluster = *thread.block->cluster;
  thread.cluster_turn = cluster.barriers;
  if (++cluster.arrived < launch->cluster * launch->threads) return;
  cluster.arrived = 0;
  ++cluster.barriers;
  wake_blocks(AT_CLUSTER_BARRIER, &cluster);
}
void tfs_cluster_wait() {
  Thread& thread = *launch->current;
  if (thread.cluster_turn < 0) tfs_fail("a thread waits for its cluster without having arrived");
  if (thread.block->cluster->barriers == thread.cluster_turn) {
    wait(AT_CLUSTER_BARRIER);
  } else {
    make_ready(thread);
    go_on();
  }
}

void* tfs_of_block(void* own, unsigned int block) {
  static uint64_t lost[2];
  const unsigned int first = launch->current->block->number / launch->cluster * launch->cluster;
  if (block >= launch->cluster) tfs_fail("there is no such block in the cluster");
  Block& other = *launch->blocks.at(first + block);
  if (&other == launch->current->block) return own;
  if (other.ended == launch->threads) tfs_fail("a block sends to one that has ended");
  if (other.memory.empty()) return lost;  // it has not started
  size_t at = 0;
  for (const Region& r : launch->shared) {
    if (own >= r.begin && own < r.begin + r.bytes) return other.memory.data() + at + ((unsigned char*)own - r.begin);
    at += r.bytes;
  }
  tfs_fail("a block sends to what is not shared memory");
  return nullptr;
}

void tfs_copy_begin(void* to, const void* from, bool there) {
  const bool at_once = launch->order == AHEAD || (launch->order == SHUFFLED && launch->random() % 2);
  if (at_once) move({to, from, there}); else launch->current->open.push_back({to, from, there});
}
void tfs_copies_commit() {
  Thread& thread = *launch->current;
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}
void tfs_copies_await(int pending) {
  auto& groups = launch->current->groups;
  for (size_t i = 0; i + pending < groups.size(); ++i) { for (const Copy& c : groups[i]) move(c); groups[i].clear(); }
}

// What the compiler's checks of accesses call (-fsanitize=alignment,bounds).
void __ubsan_handle_type_mismatch_v1(void*, uintptr_t) { tfs_fail("an access is not aligned"); }
void __ubsan_handle_out_of_bounds(void*, uintptr_t) { tfs_fail("an index is outside of its array"); }

// Runs a launch's blocks from `first` on; what went wrong, or null. `resident`: blocks that are there at one time, at least; those of a cluster
// always are. `shared`: the kernel library's dynamic shared memory, `room` bytes, of which the launch asked for `bytes`.
const char* tfs_run(void (*kernel)(const uint64_t*), const uint64_t* words, unsigned int grid, unsigned int first,
                    unsigned int threads, unsigned int warp, unsigned int cluster, unsigned int resident, unsigned char* shared,
                    uint64_t room, uint64_t bytes, int order, uint64_t seed) {
  static std::string error;
  Launch own{kernel, words, grid, first, threads, warp, cluster, resident, (Order)order, std::mt19937_64(seed)};
  launch = &own;
  Search search{shared, {nullptr, 0}};
  if (warp > MOST_LANES) return "a warp has too many lanes";
  if (grid % cluster || first % cluster) return "a grid is no multiple of its clusters";
  if (bytes > room || !dl_iterate_phdr(find_region, &search)) return "there is no such shared memory";
  unsigned char* const end = search.found.begin + search.found.bytes;
  own.shared = {{search.found.begin, (size_t)(shared + bytes - search.found.begin)},
                {shared + room, (size_t)(end - shared - room)}};
  memset(shared + bytes, POISON, room - bytes);
  const bool flat = !shape.block_x;
  const unsigned int rows = flat ? 1 : shape.block_y, columns = flat ? threads : shape.block_x;
  blockDim = {columns, rows, threads / (columns * rows)};
  gridDim = flat ? uint3{grid, 1, 1} : uint3{shape.grid_x, shape.grid_y, grid / (shape.grid_x * shape.grid_y)};
  run();
  for (auto& [number, block] : own.blocks)  // of a launch that failed
    for (Thread& thread : block->threads)
      if (thread.stack) stacks.push_back(thread.stack);
  for (uint64_t i = bytes; own.error.empty() && i < room; ++i)
    if (shared[i] != POISON) own.error = "a block writes more shared memory than the launch asked for";
  error = own.error;
  launch = nullptr;
  return error.empty() ? nullptr : error.c_str();
}
}
