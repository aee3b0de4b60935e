// Whose kernels run a step: what is one kernel there, and what the host takes. A profile changes
// what is predicted, never what our own compiler makes.
#pragma once

#include <span>
#include <string_view>

#include "base/units.h"

namespace tessera {

/// Which steps are one kernel.
enum class Fusion {
  kNone,    // each step, as our runtime computes them
  kLayers,  // those of a layer: a norm, a GELU, the update of all parameters
  kAll,     // all neighbours without a product between them
};

struct RuntimeProfile {
  std::string_view name;
  Fusion fusion = Fusion::kNone;
  /// Of the host for each kernel, beside the device: a task takes the longer of both.
  Seconds host{0};
  /// Between two kernels on the device.
  Seconds gap{0};
  std::string_view source;  // where the figures come from, for readers
};

/// "tessera", "torch-eager", "torch-compile", "megatron".
std::span<const RuntimeProfile> runtime_profiles();
/// nullptr: there is none of this name.
const RuntimeProfile* find_runtime_profile(std::string_view name);

}  // namespace tessera
