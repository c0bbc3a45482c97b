// Loads a converted model by TensorFlow's C API and runs it, without Python.
//
//   load_model OP_LIBRARY MODEL CALLS INPUT_TENSOR DIMS INPUT_FILE OUTPUT_TENSOR OUTPUT_FILE
//
// The input is float32, raw; DIMS are separated by commas. Writes the output, raw; prints "runs N fallbacks N us T", the
// median microseconds of a call.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"

namespace {

TF_Status* Status() {
  static TF_Status* status = TF_NewStatus();
  return status;
}

void Check(const char* what) {
  if (TF_GetCode(Status()) == TF_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, TF_Message(Status()));
  std::exit(1);
}

TF_Output Find(TF_Graph* graph, const std::string& tensor) {
  const std::size_t colon = tensor.rfind(':');
  TF_Output output{TF_GraphOperationByName(graph, tensor.substr(0, colon).c_str()), std::atoi(&tensor[colon + 1])};
  if (output.oper != nullptr) return output;
  std::fprintf(stderr, "the graph has no %s\n", tensor.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  TF_LoadLibrary(argv[1], Status());
  Check("TF_LoadLibrary");
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(options, nullptr, argv[2], tags, 1, graph, nullptr, Status());
  Check("TF_LoadSessionFromSavedModel");

  std::vector<std::int64_t> dims;
  std::stringstream list(argv[5]);
  for (std::string dim; std::getline(list, dim, ',');) dims.push_back(std::atoll(dim.c_str()));
  std::ifstream file(argv[6], std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  TF_Tensor* input = TF_AllocateTensor(TF_FLOAT, dims.data(), static_cast<int>(dims.size()), data.size());
  std::memcpy(TF_TensorData(input), data.data(), data.size());
  const TF_Output from = Find(graph, argv[4]), to = Find(graph, argv[7]);

  std::vector<double> times;
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    TF_Tensor* output = nullptr;
    const auto start = std::chrono::steady_clock::now();
    TF_SessionRun(session, nullptr, &from, &input, 1, &to, &output, 1, nullptr, 0, nullptr, Status());
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    Check("TF_SessionRun");
    if (i == 0) {
      std::ofstream(argv[8], std::ios::binary).write(static_cast<char*>(TF_TensorData(output)), TF_TensorByteSize(output));
    }
    TF_DeleteTensor(output);
  }
  std::sort(times.begin(), times.end());
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
  const auto stat = reinterpret_cast<std::int64_t (*)(int)>(dlsym(library, "tfs_stat"));
  std::printf("runs %lld fallbacks %lld us %.2f\n", static_cast<long long>(stat(0)), static_cast<long long>(stat(3)),
              times[times.size() / 2]);
  TF_CloseSession(session, Status());
  TF_DeleteSession(session, Status());
  return 0;
}
