// What the op library has counted, for programs that serve converted models: docs/serving.md. The functions are in the op
// library; a program that loads it by TF_LoadLibrary finds them by dlopen(path, RTLD_NOW | RTLD_NOLOAD) and dlsym. Any thread
// may call them at any time.
#ifndef TF_STITCH_H_
#define TF_STITCH_H_
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TFS_RUNS = 0,      // of regions by their kernels
  TFS_MISSES = 1,    // shapes that a region met for the first time
  TFS_BUILDS = 2,    // executables built in this process: none of converted models
  TFS_FALLBACKS = 3  // runs of regions by their own TensorFlow nodes, as for shapes without kernels
};

// A count of all regions since the process began, those of models that are gone among them; -1: there is no such count.
int64_t tfs_stat(int which);

// Calls `visit` for each region of each converted model that is loaded, and each shape that it has met, as
// "[32,128] [128]", that of its inputs and variables. `model` is the model's folder; `region` its number in there. Strings
// are valid until `visit` returns. A shape that was not met for long may be missing, and its counts with it.
typedef void (*tfs_shape_fn)(void* context, const char* model, int64_t region, const char* shape, int64_t runs,
                             int64_t fallbacks);
void tfs_visit_shapes(tfs_shape_fn visit, void* context);

#ifdef __cplusplus
}
#endif
#endif  // TF_STITCH_H_
