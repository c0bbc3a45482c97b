// What meetings say to parts that come in turn, and to 4 x 2,000 that come from threads. Prints lines for test_meetings.py.
#include <atomic>
#include <cstdio>
#include <thread>

#include "op/meetings.h"

using tf_stitch::Ticket;
using Meetings = tf_stitch::Meetings<int, int>;

namespace {

void Say(const char* what, const std::vector<int>& parts, const std::string& error = "") {
  std::printf("%s:", what);
  for (const int part : parts) std::printf(" %d", part);
  std::printf(error.empty() ? "\n" : " (%s)\n", error.c_str());
}

std::shared_ptr<Ticket> NewTicket() { return std::make_shared<Ticket>(); }

}  // namespace

int main() {
  Meetings meetings;
  std::string error;
  Say("first", meetings.Join(1, 1, 2, NewTicket(), 11, &error), error);
  Say("of another meeting", meetings.Join(2, 0, 2, NewTicket(), 20, &error), error);
  Say("twice", meetings.Join(1, 1, 2, NewTicket(), 12, &error), error);
  Say("of another size", meetings.Join(1, 0, 3, NewTicket(), 13, &error), error);
  Say("beyond", meetings.Join(1, 2, 2, NewTicket(), 14, &error), error);
  Say("last", meetings.Join(1, 0, 2, NewTicket(), 10, &error), error);
  Say("first again", meetings.Join(1, 1, 2, NewTicket(), 11, &error), error);

  const auto cancelled = NewTicket(), late = NewTicket(), over = NewTicket();
  Say("to be cancelled", meetings.Join(3, 1, 3, cancelled, 31, &error), error);
  Say("cancelled", meetings.Leave(3, cancelled));
  Say("cancelled again", meetings.Leave(3, cancelled));
  Say("before it comes", meetings.Leave(4, late));
  Say("then it comes", meetings.Join(4, 0, 1, late, 40, &error), error);
  Say("alone", meetings.Join(5, 0, 1, over, 50, &error), error);
  Say("after the end", meetings.Leave(5, over));

  std::atomic<int> ended{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int key = 100; key < 2100; ++key) {
        std::string problem;
        const std::vector<int> parts = meetings.Join(key, number, 4, NewTicket(), key + number, &problem);
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
