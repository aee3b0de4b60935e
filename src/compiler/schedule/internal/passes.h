// The model of a pipeline for its scheduler: stages on devices, the passes of each micro-batch
// through them, their dependences, the time of each pass and the memory that it holds. It consists
// of numbers only: it knows neither graphs nor tasks.
//
// A device executes one pass at a time. It is the ranks of a mesh, or of several meshes that share
// ranks. A stage is on one device; a device may have several stages. Times are in one unit of the
// caller's choice, memory is in another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task_graph/tasks/pass_kind.h"

namespace tessera {

/// Times, and amounts of memory, that differ by less are equal: their sums were taken in other
/// orders, and rounding must not make a fault of an order that fits.
inline constexpr double kPassSlack = 1e-9;

/// One micro-batch through one stage, forward or backward.
struct Pass {
  PassKind kind = PassKind::kForward;
  int stage = 0;
  int micro_batch = 0;

  bool operator==(const Pass&) const = default;
};
std::string to_text(const Pass& pass);  // "F1.0": stage 1, micro-batch 0

/// The costs of a pass of a stage, which are the same for every micro-batch.
struct StageCosts {
  /// Times; the time of BW is the sum of B and W.
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double kept = 1;         // memory that F allocates, and W or BW frees at its end
  double freed_early = 0;  // the part of it that B frees at its end
};
double time_of(const StageCosts& costs, PassKind kind);
/// The change of the device's memory in use.
double memory_of(const StageCosts& costs, PassKind kind);

/// A pass of the same micro-batch. Its result is there at once on the same device, and after a
/// transfer on others.
struct PassNeed {
  int stage = 0;
  PassKind kind = PassKind::kForward;  // F, B or W; BW stands for B and for W

  bool operator==(const PassNeed&) const = default;
};

/// The index of a kind of pass in a table by kind: F, B, W, BW.
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
  /// Between it and earlier stages; none: PipelineShape::transfer.
  std::optional<double> transfer = {};
  /// By kind, for F, B and W; the needs of BW are those of B and W.
  std::array<std::vector<PassNeed>, 3> needs;

  const std::vector<PassNeed>& needs_of(PassKind kind) const { return needs[index_of(kind)]; }
};

struct PipelineShape {
  int devices = 1;
  int micro_batches = 1;
  /// The time from the end of a pass to the start of a pass that needs it on another device.
  double transfer = 0;
  std::vector<double> memory_limits;  // by device; empty: none
  std::vector<PipelineStage> stages;

  int stage_count() const { return static_cast<int>(stages.size()); }
  /// Between a stage and earlier ones that are on other devices.
  double transfer_of(int stage) const { return stages[stage].transfer.value_or(transfer); }
};

/// The placement of the stages of a chain: stage k on device k mod p; or, with two stages per
/// device, on device min(k, 2p - 1 - k), so that the chain ends on the device where it begins.
enum class StagePlacement { kRoundRobin, kV };

/// A chain: F of a stage needs F of the previous stage; B needs its own F and B of the next stage;
/// W needs its own B.
///   costs     of all stages of a device together: each stage has an equal part of it
///   requires  devices, per_device, micro_batches >= 1; a V has two stages per device
PipelineShape chain_of(int devices, int per_device, StagePlacement placement, int micro_batches,
                       const StageCosts& costs = {});

/// A chain in a shape: a pass needs only passes that come before it in the chain.
struct Chain {
  std::vector<int> stages;   // from first to last
  std::vector<int> devices;  // of the first stages, one each
  int per_device = 1;
  /// One stage per device counts as round robin. Both are false for other placements.
  bool round_robin = false, v_shaped = false;
};
/// `stages` of the result is empty when the forward passes do not need each other one after the
/// other.
Chain find_chain(const PipelineShape& shape);

/// By device, the passes in the order of execution. On the clock each waits for its needs
/// (compiler/schedule/clock.h).
using DeviceOrders = std::vector<std::vector<Pass>>;
std::string to_text(const std::vector<Pass>& order);  // "F0.0 F0.1 BW0.0 ..."

/// The first fault of the orders as text; "" when there is none. Every pass must occur once, on the
/// device of its stage; the micro-batches of one stage and kind must be in ascending order (in
/// which sums over micro-batches are added); and memory must be within its limits.
std::string first_fault(const PipelineShape& shape, const DeviceOrders& orders);

}  // namespace tessera
