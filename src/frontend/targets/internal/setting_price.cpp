#include "frontend/targets/internal/setting_price.h"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

constexpr double kParameter = 4, kGradient = 4, kOptimizer = 8, kCopy = 2;  // bytes an element
constexpr double kExposed = 0.1;  // of exchanges that kernels could hide

/// The bandwidth of the slowest pair of neighbours of a group: ranks 0, stride, 2 stride, ...
double bytes_per_second(const Cluster& cluster, int stride, int size) {
  double slowest = 1e15;
  for (int i = 0; i + 1 < size && (i + 1) * stride < cluster.device_count(); ++i)
    slowest = std::min(slowest, cluster.link(i * stride, (i + 1) * stride).bytes_per_second);
  return slowest;
}

/// The seconds in which each rank of a ring sends (size - 1) / size of `bytes`.
double ring_seconds(double bytes, int size, double rate) {
  return size > 1 ? bytes * (size - 1) / size / rate : 0;
}

/// A pipeline rank: its layers, and which of the ends it has.
struct PipelineRank {
  double layers = 0, parameters = 0;
  double seconds = 0;  // of a micro-batch
  double kept = 0;     // bytes of a micro-batch that is in flight
};

std::vector<PipelineRank> pipeline_ranks(const ParallelSetting& setting, const LayerPrices& prices,
                                         const KeptBytes& kept, const PricedModel& model) {
  const std::vector<int64_t> layers = layers_of_stages(setting, model.model.layers);
  const int pipeline = setting.pipeline;
  std::vector<PipelineRank> ranks(static_cast<size_t>(pipeline));
  const double embedding = static_cast<double>(model.model.vocabulary * model.model.width);
  const double head = std::max(model.parameters.ends - embedding, 0.0);
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    PipelineRank& rank = ranks[stage % static_cast<size_t>(pipeline)];
    rank.layers += static_cast<double>(layers[stage]);
  }
  for (PipelineRank& rank : ranks) {
    rank.seconds = rank.layers * prices.layer.value();
    rank.parameters = rank.layers * model.parameters.layer;
    rank.kept = rank.layers * kept.layer * static_cast<double>(setting.micro_batch);
  }
  // Nearly all of the time of the ends is that of the logits.
  ranks.front().parameters += embedding;
  ranks.back().parameters += model.model.tied && pipeline > 1 ? embedding : head;
  ranks.back().seconds += prices.ends.value();
  return ranks;
}

/// Micro-batches, of all layers of the rank, that are in flight.
double in_flight(const ParallelSetting& setting, int rank) {
  const auto count = static_cast<double>(setting.micro_batches());
  if (setting.pipeline == 1) return 1;
  if (setting.is_gpipe) return count;
  const double behind = setting.pipeline - rank;
  if (setting.chunks == 1) return std::min(count, behind);
  const double chunks = setting.chunks;
  return std::min(count, (2 * (behind - 1) + (chunks - 1) * setting.pipeline + 1) / chunks);
}

/// The exchanges of data-parallel ranks that kernels do not hide, in a step: gradients in 32 bits
/// behind the backward, and parameters in 16 bits behind the forward, and under ZeRO-3 behind the
/// backward, too.
///   rate, across  of the ranks that divide state, and of their groups
///   seconds       kernels of the rank for a micro-batch
double exchange_seconds(const ParallelSetting& setting, double parameters, double rate,
                        double across, double seconds) {
  const int group = setting.zero > 0 ? setting.shard : setting.data();
  const double reduced = ring_seconds(kGradient * parameters, group, rate);
  const double gathered = ring_seconds(kCopy * parameters, group, rate);
  const double replicas =
      2 * ring_seconds(kGradient * parameters / group, setting.data() / group, across);
  const double forward = seconds / (setting.recomputed == Recomputed::kLayers ? 4 : 3);
  const double backward = seconds - forward;
  const auto exposed = [](double exchanges, double kernels) {
    return std::max(kExposed * exchanges, exchanges - kernels);
  };
  const auto count = static_cast<double>(setting.micro_batches());
  if (setting.zero == 0) return exposed(2 * reduced, backward);
  const double once = exposed(gathered, forward) + replicas;
  if (setting.zero == 1) return exposed(reduced, backward) + once;
  if (setting.zero == 2) return count * exposed(reduced, backward) + once;
  return count * (exposed(gathered, forward) + exposed(gathered + reduced, backward)) + replicas;
}

double bytes_of_parameter(const ParallelSetting& setting) {
  const double shard = setting.shard;
  const double optimizer = setting.zero >= 1 ? (kOptimizer + kParameter) / shard + kCopy
                                             : kOptimizer + kParameter + kCopy;
  const double gradient = setting.zero >= 2 ? kGradient / shard : kGradient;
  return setting.zero >= 3 ? (kOptimizer + kParameter + kGradient) / shard : optimizer + gradient;
}

}  // namespace

PricedSetting priced(const ParallelSetting& setting, const LayerPrices& prices,
                     const KeptBytes& kept, const PricedModel& model) {
  const std::vector<PipelineRank> ranks = pipeline_ranks(setting, prices, kept, model);
  const auto count = static_cast<double>(setting.micro_batches());
  const int stride = setting.tensor * setting.context;
  const double context = setting.context;
  // The ranks that divide state are neighbours; the groups of them are further apart.
  const int group = setting.zero > 0 ? setting.shard : setting.data();
  const double rate = bytes_per_second(model.cluster, stride, group);
  const double across = bytes_per_second(model.cluster, stride * group, setting.data() / group);
  double slowest = 0, memory = 0, exchanged = 0, updated = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const PipelineRank& rank = ranks[r];
    const double seconds = rank.seconds / context;
    slowest = std::max(slowest, seconds);
    const double parameters = rank.parameters / setting.tensor;
    const double exposed = exchange_seconds(setting, parameters, rate, across, seconds);
    exchanged = std::max(exchanged, exposed);
    updated = std::max(
        updated, rank.layers * prices.update.value() / (setting.zero >= 1 ? setting.shard : 1));
    double need = parameters * bytes_of_parameter(setting);
    need += in_flight(setting, static_cast<int>(r)) * rank.kept / context;
    if (setting.zero == 3) need += 2 * kCopy * model.parameters.layer / setting.tensor;
    if (setting.data() > 1)
      need += 2 * static_cast<double>(bytes_in_flight(setting, model.parameters).value());
    if (r + 1 == ranks.size())
      need += kept.ends * static_cast<double>(setting.micro_batch) / context;
    memory = std::max(memory, need);
  }
  const double bubble = static_cast<double>(setting.pipeline - 1) / setting.chunks;
  return {setting, Seconds((count + bubble) * slowest + exchanged + updated),
          Bytes(static_cast<int64_t>(memory))};
}

}  // namespace tessera
