// Functions under the versions that glibc and libstdc++ have had for long, so that a library which is linked on a new
// system loads on an old one. glibc 2.34 gave all of libdl and libpthread a new version and kept the old one, and the
// linker takes the newest. Other sources call these functions as ever and get the ones below, which this library alone
// sees. tests/native/test_older_symbols.py says which versions are left.
#include <cstddef>
#include <new>

#if defined(__x86_64__) && defined(__GLIBC__)
#define TFS_HIDDEN __attribute__((visibility("hidden")))

// The function `name` calls that of a version; `symbol` is what the linker calls it.
#define TFS_OLDER(result, name, symbol, version, parameters, arguments) \
  extern "C" result tfs_older_##name parameters;                        \
  __asm__(".symver tfs_older_" #name "," symbol "@" version);           \
  extern "C" TFS_HIDDEN result tfs_##name parameters __asm__(symbol);   \
  extern "C" result tfs_##name parameters { return tfs_older_##name arguments; }
#define TFS_GLIBC(result, name, parameters, arguments) \
  TFS_OLDER(result, name, #name, "GLIBC_2.2.5", parameters, arguments)

TFS_GLIBC(void*, dlopen, (const char* file, int mode), (file, mode))
TFS_GLIBC(void*, dlsym, (void* handle, const char* name), (handle, name))
TFS_GLIBC(int, dlclose, (void* handle), (handle))
TFS_GLIBC(char*, dlerror, (), ())
TFS_GLIBC(int, dladdr, (const void* address, void* info), (address, info))
TFS_GLIBC(int, pthread_once, (void* control, void (*function)()), (control, function))
TFS_GLIBC(int, pthread_mutex_trylock, (void* mutex), (mutex))
TFS_GLIBC(int, sem_init, (void* semaphore, int shared, unsigned value), (semaphore, shared, value))
TFS_GLIBC(int, sem_post, (void* semaphore), (semaphore))
TFS_GLIBC(int, sem_wait, (void* semaphore), (semaphore))
TFS_OLDER(void, wait, "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", "GLIBCXX_3.4.11",
          (void* condition, void* lock), (condition, lock))

// Inline code of libstdc++ skips atomic instructions where this says that the process has one thread; no process with
// TensorFlow has.
extern "C" TFS_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

namespace std {
[[noreturn]] TFS_HIDDEN void __throw_bad_array_new_length() { throw bad_array_new_length(); }
}  // namespace std
#endif
