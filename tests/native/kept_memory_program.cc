// Which memory calls get, in turn and from threads. Prints lines for test_kept_memory.py.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "op/kept_memory.h"

namespace {

std::atomic<int> alive{0}, made{0};

struct Piece {
  std::int64_t bytes = -1;
  int number = 0;
  std::shared_ptr<int> memory;
};

using Memory = tf_stitch::KeptMemory<Piece>;

std::int64_t room = 1000, most = 1000;

const Piece* Take(Memory* memory, std::int64_t bytes) {
  return memory->Take(
      bytes,
      [](std::int64_t size, Piece* piece) {
        if (size > most) return false;
        *piece = {size, ++made, std::shared_ptr<int>(new int, [](int* p) { --alive; delete p; })};
        ++alive;
        return true;
      },
      [](std::int64_t size) { return size <= room; });
}

void Say(const char* what, const Piece* piece) {
  std::printf("%s:", what);
  if (piece == nullptr) {
    std::printf(" none");
  } else {
    std::printf(" %d of %d", piece->number, static_cast<int>(piece->bytes));
  }
  std::printf(", %d alive\n", alive.load());
}

void Call(Memory* memory, const char* what, std::int64_t bytes) {
  const Piece* const piece = Take(memory, bytes);
  Say(what, piece);
  if (piece != nullptr) memory->Return();
}

}  // namespace

int main() {
  const int one = 0, two = 0;
  {
    auto memory = Memory::Of(&one);
    std::printf("%d %d\n", memory == Memory::Of(&one), memory == Memory::Of(&two));
    Call(memory.get(), "first", 10);
    Call(memory.get(), "again", 10);
    Call(memory.get(), "smaller", 5);
    Call(memory.get(), "larger", 30);
    Call(memory.get(), "first again", 10);
    const auto* const mine = Take(memory.get(), 1);
    Call(memory.get(), "while it is taken", 1);
    Say("mine", mine);
    memory->Return();
    most = 50;
    Call(memory.get(), "too much at once", 100);
    most = 1000;
    Call(memory.get(), "beyond the room", 2000);
    Call(memory.get(), "new", 100);
    room = 10;
    int calls = 0;
    while (Take(memory.get(), 100) != nullptr) {
      memory->Return();
      ++calls;
    }
    std::printf("given back after %d calls or less: %d, %d alive\n", 16, calls < 16, alive.load());
    room = 1000;
    Call(memory.get(), "with room", 100);
    Say("lent", memory->Borrow(50));
    Say("lent twice", memory->Borrow(50));
    memory->Drop();
    Say("dropped while it is lent", nullptr);
    memory->Return();
    Say("lent in vain", memory->Borrow(101));
    Say("nothing to lend", memory->Borrow(1));
    Call(memory.get(), "again after that", 100);
    memory->Drop();
    Say("dropped", nullptr);
    std::printf("others: %d %d\n", Memory::IfAny(&one) == memory, Memory::IfAny(&two) == nullptr);
  }
  std::printf("at the end: %d alive\n", alive.load());

  std::atomic<int> inside{0}, together{0}, had{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto memory = Memory::Of(&two);
        if (Take(memory.get(), i % 3 + 1) == nullptr) continue;
        if (inside.fetch_add(1) != 0) ++together;
        ++had;
        inside.fetch_sub(1);
        memory->Return();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("threads: %d together, some had it: %d, %d alive\n", together.load(), had.load() > 0, alive.load());
}
