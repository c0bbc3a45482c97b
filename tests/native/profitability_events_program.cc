// Prints how many CUDA events live while profitability checks decide and when they are gone, and after how many runs of
// the fallback subgraph they decide, with a driver that only keeps books.
#include <cstdio>
#include <memory>
#include <vector>

#include "op/profitability_check.h"

namespace tsl {
bool OpDeterminismRequired() { return false; }
}  // namespace tsl

namespace tf_stitch {

struct CUevent_st {};

namespace {

int live = 0;
int can_make = 1 << 30;  // events
float elapsed = 1;       // milliseconds of what is timed

CudaDriver FakeDriver() {
  CudaDriver driver{};
  driver.CtxGetCurrent = [](CUcontext* context) { return *context = nullptr, 0; };
  driver.CtxPushCurrent = [](CUcontext) { return 0; };
  driver.CtxPopCurrent = [](CUcontext*) { return 0; };
  driver.StreamGetCtx = [](CUstream, CUcontext* context) { return *context = reinterpret_cast<CUcontext>(&live), 0; };
  driver.EventCreate = [](CUevent* event, unsigned) {
    if (can_make == 0) return 2;
    return *event = new CUevent_st, --can_make, ++live, 0;
  };
  driver.EventDestroy = [](CUevent event) { return delete event, --live, 0; };
  driver.EventRecord = [](CUevent, CUstream) { return 0; };
  driver.EventQuery = [](CUevent) { return 0; };
  driver.EventElapsedTime = [](float* time, CUevent, CUevent) { return *time = elapsed, 0; };
  return driver;
}

CudaDriver fake = FakeDriver();

void Calls(const char* title, int count) {
  const auto stream = reinterpret_cast<CUstream>(&fake);
  auto check = std::make_unique<ProfitabilityCheck>();
  for (int i = 0; i < count; ++i) {
    ProfitabilityCheck::Turn turn = check->Begin(stream);
    if (turn.found) {
      check->Decide({turn.found->form, 0});
    } else if (turn.look) {
      check->Looked(std::nullopt);
    } else if (turn.sampled) {
      check->Start(stream, &turn);
      check->End(stream, turn, true);
    }
  }
  std::printf("%s: %d live, ", title, live);
  check.reset();
  std::printf("then %d\n", live);
}

// Milliseconds of the kernels and of the fallback subgraph, in turns.
void Decides(const char* title, const std::vector<float>& stitched, const std::vector<float>& fallback) {
  const auto stream = reinterpret_cast<CUstream>(&fake);
  ProfitabilityCheck check;
  std::size_t kernels = 0, nodes = 0;
  int calls = 1, shadows = 0;
  for (; calls < 200; ++calls) {
    ProfitabilityCheck::Turn turn = check.Begin(stream);
    if (turn.found) {
      const char* const form = turn.found->form == Form::kStitched ? "kernels" : "nodes";
      std::printf("%s: %s in call %d, after %d runs of the nodes\n", title, form, calls, shadows);
      return;
    }
    if (turn.look) {
      check.Looked(std::nullopt);
      turn = check.Begin(stream);
    }
    if (!turn.sampled) continue;
    elapsed = turn.shadow ? fallback[nodes % fallback.size()] : stitched[kernels % stitched.size()];
    nodes += turn.timed && turn.shadow;
    kernels += turn.timed && !turn.shadow;
    check.Start(stream, &turn);
    check.End(stream, turn, true);
    shadows += turn.shadow;
    calls -= turn.shadow;  // the kernels run in the same call
  }
  std::printf("%s: open\n", title);
}

void Run() {
  EnableProfitabilityCheck(true, 0, 1e18);
  Calls("a few calls", 4);
  Calls("not decided", 12);
  Calls("decided", 100);
  Decides("twice as fast", {10}, {20});
  Decides("a slow first run", {11, 10}, {20});
  Decides("faster", {10}, {11});
  Decides("as fast", {10}, {10});
  Decides("faster at times", {10, 12}, {11});
  Decides("slower", {11}, {10});
  can_make = 1;
  Calls("one event to be had", 30);
}

}  // namespace

const CudaDriver& Cuda() { return fake; }

}  // namespace tf_stitch

int main() { tf_stitch::Run(); }
