// How the program allocates (jemalloc): in huge pages, also where the kernel gives them only to
// those that ask. Compiling and planning follow pointers through hundreds of megabytes of small
// objects, and fault in most of it once.
extern "C" {
// The name is that of the library, which reads it before the program begins.
extern const char* malloc_conf;
const char* malloc_conf = "thp:always,metadata_thp:auto";
}
