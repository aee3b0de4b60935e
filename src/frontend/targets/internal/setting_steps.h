// Simulated steps of settings of one model on one cluster, and what a layer of it takes: the
// differences of steps with two and three layers, and with one and two micro-batches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "cluster/cluster/cluster.h"
#include "frontend/targets/setting.h"
#include "planner/search/find_plan.h"
#include "training/config/config.h"

namespace tessera {

/// Parameters of the model, of which each has four bytes.
struct ParameterCounts {
  double layer = 0, ends = 0;
};
/// Of one rank of a tensor-parallel group, for one micro-batch.
struct LayerPrices {
  Seconds layer{0};   // forward and backward of a layer
  Seconds ends{0};    // of embedding, logits and loss together
  Seconds update{0};  // of the parameters of a layer, once a step
};

/// Bytes that a row keeps from its forward to its backward, on one rank of a tensor-parallel group.
struct KeptBytes {
  double layer = 0, ends = 0;
};

/// Steps with batches of any size. Prices that are asked again are not simulated again.
///   threads  any number of callers
class SettingSteps {
 public:
  /// Both outlive it.
  SettingSteps(const RunConfig& config, const Cluster& cluster);

  /// What a step takes and needs, as sum_of_parts() (setting_parts.h).
  ///   returns  nullopt for a setting that does not compile; its name is simulated_preset()
  std::optional<EvaluatedCandidate> evaluate(const ParallelSetting& setting);

  /// From four small steps.
  ///   setting  its tensor, sequence_parallel, recomputed and micro_batch
  ///   returns  nullopt for a setting that does not compile
  std::optional<LayerPrices> layer_prices(const ParallelSetting& setting);
  /// From four steps of many rows.
  ///   setting  its tensor, sequence_parallel and recomputed
  ///   returns  as above
  std::optional<KeptBytes> kept_bytes(const ParallelSetting& setting);

  const ParameterCounts& parameters() const { return parameters_; }

 private:
  struct SmallStep {
    double seconds = 0, arena = 0;
  };
  /// A step of few layers and micro-batches on the ranks of one tensor-parallel group.
  std::optional<SmallStep> small_step(const ParallelSetting& setting, int64_t layers,
                                      int64_t micro_batches);
  /// Of a model of other layers, as a whole.
  std::optional<EvaluatedCandidate> evaluate_whole(const ParallelSetting& setting, int64_t layers);
  std::shared_ptr<const Graph> graph(int64_t layers, int64_t rows);

  // The parts of a setting that prices depend on.
  using PriceKey = std::tuple<int, bool, Recomputed, int64_t>;
  using MemoryKey = std::tuple<int, bool, Recomputed>;

  const RunConfig& config_;
  const Cluster& cluster_;
  const ParameterCounts parameters_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const Graph>> graphs_;
  std::map<PriceKey, std::optional<LayerPrices>> layer_prices_;
  std::map<MemoryKey, std::optional<KeptBytes>> kept_bytes_;
};

/// The bytes of exchanges that programs of the targets have in flight: gradients of a layer while
/// parameters of the next one are gathered.
///   ensures  whole MiB
///   source   PyTorch, torch/distributed/fsdp/_fully_shard (one layer ahead each way)
Bytes bytes_in_flight(const ParallelSetting& setting, const ParameterCounts& parameters);

/// preset_text() with these bytes: the preset that is simulated for the setting.
std::string simulated_preset(const ParallelSetting& setting, const ParameterCounts& parameters);

}  // namespace tessera
