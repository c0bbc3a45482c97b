// Prints how many CUDA events live while profitability checks decide and when they are gone, with a driver that only keeps books.
#include <cstdio>
#include <memory>

#include "op/profitability_check.h"

namespace tsl {
bool OpDeterminismRequired() { return false; }
}  // namespace tsl

namespace tf_stitch {

struct CUevent_st {};

namespace {

int live = 0;
int can_make = 1 << 30;  // events

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
  driver.EventElapsedTime = [](float* time, CUevent, CUevent) { return *time = 1, 0; };
  return driver;
}

CudaDriver fake = FakeDriver();

void Calls(const char* title, int count) {
  const auto stream = reinterpret_cast<CUstream>(&fake);
  auto check = std::make_unique<ProfitabilityCheck>();
  for (int i = 0; i < count; ++i) {
    ProfitabilityCheck::Turn turn = check->Begin(stream);
    if (turn.found) {
      check->Decide(turn.found->form);
    } else if (turn.sampled) {
      check->Start(stream, &turn);
      check->End(stream, turn, true);
    }
  }
  std::printf("%s: %d live, ", title, live);
  check.reset();
  std::printf("then %d\n", live);
}

void Run() {
  EnableProfitabilityCheck(true, 0);
  Calls("a few calls", 5);
  Calls("not decided", 30);
  Calls("decided", 100);
  can_make = 1;
  Calls("one event to be had", 30);
}

}  // namespace

const CudaDriver& Cuda() { return fake; }

}  // namespace tf_stitch

int main() { tf_stitch::Run(); }
