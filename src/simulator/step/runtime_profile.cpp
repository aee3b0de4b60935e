#include "simulator/step/runtime_profile.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr std::array kProfiles = std::to_array<RuntimeProfile>({
    {"tessera", Fusion::kNone, Seconds(0), Seconds(0), "the prices of the cluster as they are"},
    {"torch-eager", Fusion::kLayers, Seconds(10e-6), Seconds(1e-6),
     "assumed, not measured: one kernel for the ops of a layer, 10 us of the host for each"},
    {"torch-compile", Fusion::kAll, Seconds(4e-6), Seconds(1e-6),
     "assumed, not measured: one kernel for all neighbours, 4 us of the host for each"},
    {"megatron", Fusion::kLayers, Seconds(10e-6), Seconds(1e-6),
     "assumed, not measured: the same as torch-eager so far"},
});

}  // namespace

std::span<const RuntimeProfile> runtime_profiles() {
  return kProfiles;
}

const RuntimeProfile* find_runtime_profile(std::string_view name) {
  const auto found = std::ranges::find(kProfiles, name, &RuntimeProfile::name);
  return found == kProfiles.end() ? nullptr : &*found;
}

}  // namespace tessera
