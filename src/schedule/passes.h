// A pipeline as its scheduler sees it: stages on devices, the passes of each micro-batch through
// them, their dependences, how long a pass takes and what memory it holds. It is numbers only: it
// knows neither graphs nor tasks.
//
// A device does one pass at a time: it is the ranks of a mesh, or of several meshes that share
// ranks. A stage is on one device; a device may have several stages. Times are in one unit of
// the caller's choice, memory in another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/pass_kind.h"

namespace tessera {

/// One micro-batch through one stage, forward or backward.
struct Pass {
  PassKind kind = PassKind::kForward;
  int stage = 0;
  int micro_batch = 0;

  bool operator==(const Pass&) const = default;
};
std::string to_text(const Pass& pass);  // "F1.0": stage 1, micro-batch 0

/// What a pass of a stage takes, the same for every micro-batch.
struct StageCosts {
  double forward = 1, input_gradient = 1,
         weight_gradient = 1;  // times; that of BW is the sum of B and W
  double kept = 1;             // memory that F allocates, and W or BW frees at its end
  double freed_early = 0;      // of that, what B frees at its end
};
double time_of(const StageCosts& costs, PassKind kind);
/// The change of the device's memory in use.
double memory_of(const StageCosts& costs, PassKind kind);

/// A pass of the same micro-batch. One on the same device is there at once, others after a
/// transfer.
struct PassNeed {
  int stage = 0;
  PassKind kind = PassKind::kForward;  // F, B or W; BW stands for B and for W

  bool operator==(const PassNeed&) const = default;
};

/// Where a kind of pass has its entry in a table by kind: F, B, W, BW.
constexpr size_t index_of(PassKind kind) {
  return static_cast<size_t>(kind);
}

/// An entry for each pass F, B and W of every stage and micro-batch.
template <typename T>
class PassTable {
 public:
  PassTable() = default;
  PassTable(int64_t stages, int64_t micro_batches, const T& value = T())
      : stages_(stages),
        micro_batches_(micro_batches),
        entries_(3 * stages * micro_batches, value) {}

  T& at(PassKind kind, int64_t stage, int64_t micro_batch) {
    return entries_[(index_of(kind) * stages_ + stage) * micro_batches_ + micro_batch];
  }
  const T& at(PassKind kind, int64_t stage, int64_t micro_batch) const {
    return entries_[(index_of(kind) * stages_ + stage) * micro_batches_ + micro_batch];
  }

 private:
  int64_t stages_ = 0, micro_batches_ = 0;
  std::vector<T> entries_;
};

struct PipelineStage {
  int device = 0;
  StageCosts costs;
  std::array<std::vector<PassNeed>, 3>
      needs;  // by kind, of F, B and W; those of BW are those of B and W

  const std::vector<PassNeed>& needs_of(PassKind kind) const { return needs[index_of(kind)]; }
};

struct PipelineShape {
  int devices = 1;
  int micro_batches = 1;
  double transfer =
      0;  // time from the end of a pass to the start of what needs it on another device
  std::vector<double> memory_limits;  // by device; empty: none
  std::vector<PipelineStage> stages;

  int stage_count() const { return static_cast<int>(stages.size()); }
};

/// The placement of the stages of a chain: stage k on device k mod p; or with two a device, device
/// min(k, 2p - 1 - k), so that the chain ends on the device where it begins.
enum class StagePlacement { kRoundRobin, kV };

/// A chain: F of a stage needs F of the one before; B needs its own F and B of the one after; W
/// needs its own B.
///   costs     of all stages of a device together: each stage has an equal part of it
///   requires  devices, per_device, micro_batches >= 1; a V has two stages a device
PipelineShape chain_of(int devices, int per_device, StagePlacement placement, int micro_batches,
                       const StageCosts& costs = {});

/// A chain found in a shape: whatever a pass needs comes before it in the chain too.
struct Chain {
  std::vector<int> stages;   // from first to last
  std::vector<int> devices;  // of the first stages, one each
  int per_device = 1;
  bool round_robin = false,
       v_shaped = false;  // one stage a device is round robin; how they lie else may be neither
};
/// `stages` is empty when the forward passes do not need each other one after the other.
Chain find_chain(const PipelineShape& shape);

/// By device, the passes in the order in which it does them. The clock lets each wait for what it
/// needs (schedule/clock.h).
using DeviceOrders = std::vector<std::vector<Pass>>;
std::string to_text(const std::vector<Pass>& order);  // "F0.0 F0.1 BW0.0 ..."

/// Is every pass there once, on the device of its stage, the micro-batches of one stage and kind in
/// ascending order (as sums over micro-batches are added up), and memory within its limits? "" or
/// what is wrong first.
std::string first_fault(const PipelineShape& shape, const DeviceOrders& orders);

}  // namespace tessera
