// The entry points of libFuzzer: fuzz_files --reader=NAME [options of libFuzzer] [CORPUS...].
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "readers.h"

namespace {

/// libFuzzer calls functions without a context of ours.
const tessera::Reader*& chosen_reader() {
  static const tessera::Reader* reader = nullptr;
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  constexpr std::string_view option = "--reader=";
  for (int i = 1; i < *count; ++i)
    if (const std::string_view word = (*words)[i]; word.starts_with(option))
      chosen_reader() = tessera::find_reader(word.substr(option.size()));
  if (chosen_reader()) return 0;
  std::fputs("fuzz_files: name one of the readers:", stderr);
  for (const tessera::Reader& reader : tessera::readers())
    std::fprintf(stderr, " --reader=%.*s", static_cast<int>(reader.name.size()),
                 reader.name.data());
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::read_anything(*chosen_reader(), std::as_bytes(std::span<const uint8_t>(data, size)));
  return 0;
}
