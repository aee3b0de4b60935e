#include "tools/cli/internal/print/print.h"

#include <unistd.h>

#include <iostream>

#include "base/text/printable.h"

namespace tessera {

void print(std::string_view text) {
  std::cout << printable(text) << std::flush;
}

void tell(std::string_view text) {
  std::cerr << printable(text);
}

void print_bytes(std::string_view bytes) {
  if (::isatty(STDOUT_FILENO) == 1) return print(bytes);
  std::cout << bytes << std::flush;
}

}  // namespace tessera
