#include "cluster/cluster/runtime_profile.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tessera {
namespace {

const std::array<RuntimeProfile, 4>& profiles() {
  static const std::array<RuntimeProfile, 4> list{{
      {.source = "our own runtime: one kernel for each op"},
      {.name = "torch-eager",
       .fusion = Fusion::kLayers,
       .attention = AttentionKernel::kBlocked,
       .host = Seconds(20e-6),
       .gap = Seconds(2e-6),
       .constant = Seconds(5e-3),
       .overlaps = true,
       .libraries = Bytes(1'000'000'000),
       .reach = {.half_extent = 64,
                 .attention = 0.5,
                 .inside = {0.75, Seconds(20e-6), Seconds(3e-6)},
                 .network = {0.6, Seconds(30e-6), Seconds(5e-6)}},
       .source = "assumed, not measured: one kernel for the ops of a layer"},
      {.name = "torch-compile",
       .fusion = Fusion::kAll,
       .attention = AttentionKernel::kBlocked,
       .host = Seconds(8e-6),
       .gap = Seconds(2e-6),
       .constant = Seconds(5e-3),
       .overlaps = true,
       .libraries = Bytes(1'000'000'000),
       .reach = {.half_extent = 64,
                 .attention = 0.5,
                 .inside = {0.75, Seconds(20e-6), Seconds(3e-6)},
                 .network = {0.6, Seconds(30e-6), Seconds(5e-6)}},
       .source = "assumed, not measured: one kernel for all neighbours; docs/accuracy.md compares "
                 "it with published runs"},
      // Fitted by tessera calibrate to 121 runs of Megatron-DeepSpeed on A100: 110 on one machine
      // and 11 on 8 and 32 (vTrain, data/ground_truth_*.csv at f8dda84, MIT licence), beginning
      // with a fit to the first 60 rows of the table, of which 22 are among the 110.
      {.name = "megatron",
       .fusion = Fusion::kAll,
       .attention = AttentionKernel::kScores,
       .score_passes = 6.3,
       .host = Seconds(65e-6),
       .gap = Seconds(8e-6),
       .constant = Seconds(8.3e-3),
       .overlaps = false,
       .libraries = Bytes(1'000'000'000),
       .reach = {.products = 1.155,
                 .half_extent = 236,
                 .attention = 0.5,
                 .memory = 1.15,
                 .inside = {1.06, Seconds(31e-6), Seconds(2.2e-6)},
                 .network = {0.41, Seconds(30e-6), Seconds(5e-6)}},
       .low = 0.87,
       .high = 1.19,
       .source = "fitted to 121 runs of Megatron-DeepSpeed with full recompute on A100 (vTrain); "
                 "memory of libraries assumed"},
  }};
  return list;
}

}  // namespace

std::string_view to_text(Fusion fusion) {
  switch (fusion) {
    case Fusion::kNone: return "none";
    case Fusion::kLayers: return "layers";
    case Fusion::kAll: return "all";
  }
  throw InternalError("unknown fusion");
}

std::string_view to_text(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kBlocked: return "blocked";
    case AttentionKernel::kScores: return "scores";
  }
  throw InternalError("unknown kernel of attention");
}

std::span<const RuntimeProfile> runtime_profiles() {
  return profiles();
}

std::vector<std::string> runtime_names() {
  std::vector<std::string> names;
  for (const RuntimeProfile& profile : profiles()) names.push_back(profile.name);
  return names;
}

const RuntimeProfile* find_runtime_profile(std::string_view name) {
  const auto found = std::ranges::find(profiles(), name, &RuntimeProfile::name);
  return found == profiles().end() ? nullptr : &*found;
}

}  // namespace tessera
