// Whose software runs a step on the devices of a cluster: what is one kernel there, what the host
// takes, and which part of the rates of the devices and links its kernels and collectives reach. A
// profile changes what is predicted, never what our own compiler makes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tessera {

/// Which steps are one kernel.
enum class Fusion : uint8_t {
  kNone,    // each step, as our runtime computes them
  kLayers,  // those of a layer: a norm, a GELU, the update of all parameters
  kAll,     // all neighbours without a product between them
};
std::string_view to_text(Fusion fusion);  // "none", "layers", "all"

/// How attention is computed.
enum class AttentionKernel : uint8_t {
  kBlocked,  // in one kernel that keeps no scores: FlashAttention
  kScores,   // products, and between them passes over the scores in memory
};
std::string_view to_text(AttentionKernel kernel);  // "blocked", "scores"

/// What the collectives of a runtime make of the links of a level.
struct LinkReach {
  double bandwidth = 1;  // the part of the bandwidth of the cluster
  Seconds start{0};      // of an exchange; with `hop` 0: both are as in the cluster
  Seconds hop{0};        // for each rank that sends

  bool operator==(const LinkReach&) const = default;
};

/// The rates of the devices and links that a runtime reaches, as parts of those of the cluster; a
/// part may be above 1, since clusters assume parts of their data sheets.
struct Reach {
  double products = 1;
  double half_extent = 0;  // ClassRates::half_extent of products; 0: as in the cluster
  double attention = 1;    // of products, by a kernel that keeps no scores
  double memory = 1;
  LinkReach inside = {};   // of machines
  LinkReach network = {};  // between them

  bool operator==(const Reach&) const = default;
};

struct RuntimeProfile {
  std::string name = "tessera";
  Fusion fusion = Fusion::kNone;
  AttentionKernel attention = AttentionKernel::kBlocked;
  /// Passes over the scores in memory of a forward with AttentionKernel::kScores: each reads or
  /// writes all of them, in 16 bits. A backward has half as many more.
  double score_passes = 6.5;
  /// Of the host for each kernel, beside the device: a task takes the longer of both.
  Seconds host{0};
  /// Between two kernels on the device.
  Seconds gap{0};
  /// Of a step: the loop around it, the data, the check of the norm.
  Seconds constant{0};
  /// Do exchanges that nothing waits for, as of gradients, run beside kernels? On a CPU those of
  /// threads never do.
  bool overlaps = true;
  /// Bytes of a device that communicators and libraries take, in place of DeviceType::reserve.
  Bytes libraries{0};
  /// What the allocator holds beyond what is live, as a part of it.
  double margin = 0;
  /// On devices that are no CPUs.
  Reach reach = {};
  /// Eight of ten steps are within these parts of their prediction, by runs that the figures were
  /// not fitted to. 0: nothing is known.
  double low = 0, high = 0;
  std::string source;  // where the figures come from, for readers

  bool operator==(const RuntimeProfile&) const = default;
};

/// "tessera", "torch-eager", "torch-compile", "megatron". The first one is our own runtime.
std::span<const RuntimeProfile> runtime_profiles();
std::vector<std::string> runtime_names();
/// nullptr: there is none of this name.
const RuntimeProfile* find_runtime_profile(std::string_view name);

}  // namespace tessera
