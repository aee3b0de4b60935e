// How the program allocates (jemalloc). Compiling and planning follow pointers through hundreds of
// megabytes of small objects, most of which they touch once. They are in huge pages, also where the
// kernel gives these only to those that ask; and what is free goes back to the system after a
// minute, so that no page is cleared twice within a compilation.
//
// The library crashes where a thread begins and there is no memory for an arena or a cache of its
// own (5.3.0: arena_choose_hard, tcache_alloc_small_hard). Where the system refuses memory, rather
// than ending programs that use too much, all threads share one arena without caches.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

constexpr const char* kFast = "thp:always,metadata_thp:auto,dirty_decay_ms:60000";
constexpr const char* kSafe = "narenas:1,tcache:false,dirty_decay_ms:60000";

/// Does the kernel refuse memory that it could not give later?
bool commits_strictly() {
  const int file = ::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char mode = '0';
  const bool is_read = file >= 0 && ::read(file, &mode, 1) == 1;
  if (file >= 0) ::close(file);
  return is_read && mode == '2';
}

bool may_refuse_memory() {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited || commits_strictly();
}

}  // namespace

extern "C" {
// The name is that of the library, which reads it before the program begins.
extern const char* malloc_conf;
const char* malloc_conf = kFast;
}

namespace {

void choose_allocator(int, char**, char**) {
  if (may_refuse_memory()) malloc_conf = kSafe;
}

// Called before the libraries of the program are initialized, and so before anything is allocated.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kChooseAllocator)(int, char**, char**) = choose_allocator;

}  // namespace
