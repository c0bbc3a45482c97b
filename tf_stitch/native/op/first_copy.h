// Of several copies of this library in one process the first serves: TensorFlow has one registry of ops, kernels and
// executors, and ends the process at a second executor of the same name. A copy lies beside each model that is served, or
// an old build and a new one are loaded.
#pragma once
#include <string>

namespace tf_stitch {

// Whether the ops of this copy run. Asked first while it is loaded, before it has registered anything.
bool IsFirstCopy();

// Path of the library whose ops run; "" where that is linked into the program.
std::string ServingLibrary();

// The function of that name in the copy that serves; null: that is this one, or it is linked into the program.
void* InServingCopy(const char* function);

}  // namespace tf_stitch
