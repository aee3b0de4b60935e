#include "simulator/step/runtime_profile.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr std::array kProfiles = std::to_array<RuntimeProfile>({
    {"tessera", Fusion::kNone, Seconds(0), Seconds(0), "the prices of the cluster as they are"},
    {"torch-eager", Fusion::kLayers, Seconds(10e-6), Seconds(1e-6),
     "one kernel a module of torch.nn, 5 to 15 us of Python and dispatcher each (2024)"},
    {"torch-compile", Fusion::kAll, Seconds(4e-6), Seconds(1e-6),
     "element-wise neighbours are one kernel of Inductor, launched by generated code (2024)"},
    {"megatron", Fusion::kLayers, Seconds(10e-6), Seconds(1e-6),
     "fused norms, GELU and softmax of Megatron-LM and fused AdamW of Apex (2023)"},
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
