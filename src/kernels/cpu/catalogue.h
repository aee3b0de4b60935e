// The CPU's kernels by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/work.h"

namespace tessera {

/// The inputs whose memory output 0 may use, if they have its type.
enum class InPlace {
  kNever,
  kAnyInput,    // element i of the output depends only on elements i of the inputs
  kFirstInput,  // the output is input 0 with changes; the other inputs are read at any time
};

/// How the kernel takes operands of f16 and bf16 (kernels/cpu/narrow.h).
enum class Narrow {
  kComputed,     // as the kernel of f32 on converted operands
  kElementwise,  // the same, a piece of elements at a time: in_place is kAnyInput except for the
                 // types
  kMoved,        // it copies elements of any size
};

struct CatalogueEntry {
  std::string_view name;
  BoundKernel (*bind)(const LocalCall& call) = nullptr;
  LocalWork (*work)(const LocalCall& call) = nullptr;
  InPlace in_place = InPlace::kNever;
  Bytes (*workspace)(const LocalCall& call) = nullptr;  // as BoundKernel::workspace; nullptr: none
  Narrow narrow = Narrow::kComputed;
};

/// The catalogue, in the order of the table in kernels/README.md.
std::span<const CatalogueEntry> cpu_catalogue();

/// The names of all built-in kernels, sorted.
std::vector<std::string> kernel_names();

}  // namespace tessera
