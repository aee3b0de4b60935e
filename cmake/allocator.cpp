// How the program allocates (jemalloc). Compiling and planning follow pointers through hundreds of
// megabytes of small objects, most of which they touch once. They are in huge pages, also where the
// kernel gives these only to those that ask; and what is free goes back to the system after a
// minute, so that no page is cleared twice within a compilation.
extern "C" {
// The name is that of the library, which reads it before the program begins.
extern const char* malloc_conf;
const char* malloc_conf = "thp:always,metadata_thp:auto,dirty_decay_ms:60000";
}
