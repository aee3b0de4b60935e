// The CPU's kernels by name.
#pragma once

#include <span>
#include <string_view>

#include "kernels/kernel.h"

namespace tessera {

struct CatalogueEntry {
  std::string_view name;
  BoundKernel (*bind)(const LocalCall& call) = nullptr;
  bool in_place = false;  // element i of the output depends on elements i of the inputs only
};

/// In the order of the table in kernels/README.md.
std::span<const CatalogueEntry> cpu_catalogue();

}  // namespace tessera
