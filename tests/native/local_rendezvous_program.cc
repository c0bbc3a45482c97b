// What a rendezvous says to members that come in turn, and to 4 x 2,000 that come from threads. Prints lines for
// test_local_rendezvous.py.
#include <atomic>
#include <cstdio>
#include <thread>

#include "op/local_rendezvous.h"

using tf_stitch::Ticket;
using Rendezvous = tf_stitch::LocalRendezvous<int, int>;

namespace {

void Say(const char* what, const std::vector<int>& parts, const std::string& error = "") {
  std::printf("%s:", what);
  for (const int part : parts) std::printf(" %d", part);
  std::printf(error.empty() ? "\n" : " (%s)\n", error.c_str());
}

std::shared_ptr<Ticket> NewTicket() { return std::make_shared<Ticket>(); }

}  // namespace

int main() {
  Rendezvous rendezvous;
  std::string error;
  Say("first", rendezvous.Join(1, 1, 2, NewTicket(), 11, &error), error);
  Say("of another key", rendezvous.Join(2, 0, 2, NewTicket(), 20, &error), error);
  Say("twice", rendezvous.Join(1, 1, 2, NewTicket(), 12, &error), error);
  Say("of another size", rendezvous.Join(1, 0, 3, NewTicket(), 13, &error), error);
  Say("beyond", rendezvous.Join(1, 2, 2, NewTicket(), 14, &error), error);
  Say("last", rendezvous.Join(1, 0, 2, NewTicket(), 10, &error), error);
  Say("first again", rendezvous.Join(1, 1, 2, NewTicket(), 11, &error), error);

  const auto cancelled = NewTicket(), late = NewTicket(), over = NewTicket();
  Say("to be cancelled", rendezvous.Join(3, 1, 3, cancelled, 31, &error), error);
  Say("cancelled", rendezvous.Leave(3, cancelled));
  Say("cancelled again", rendezvous.Leave(3, cancelled));
  Say("before it comes", rendezvous.Leave(4, late));
  Say("then it comes", rendezvous.Join(4, 0, 1, late, 40, &error), error);
  Say("alone", rendezvous.Join(5, 0, 1, over, 50, &error), error);
  Say("after the end", rendezvous.Leave(5, over));

  std::atomic<int> ended{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int key = 100; key < 2100; ++key) {
        std::string problem;
        const std::vector<int> parts = rendezvous.Join(key, rank, 4, NewTicket(), key + rank, &problem);
        if (!problem.empty()) ++wrong;
        if (parts.empty()) continue;
        ++ended;
        if (parts != std::vector<int>{key, key + 1, key + 2, key + 3}) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("threads: %d ended, %d wrong\n", ended.load(), wrong.load());
}
