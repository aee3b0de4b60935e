#include "frontend/targets/internal/setting_price.h"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

constexpr double kParameter = 4, kGradient = 4, kOptimizer = 8, kCopy = 2;  // bytes an element
constexpr double kHidden = 0.7;  // of a backward that hides exchanges of gradients

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
                                         const PricedModel& model) {
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
    rank.kept = rank.layers * prices.kept;
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

double bytes_of_parameter(const ParallelSetting& setting) {
  const double shard = setting.shard;
  const double optimizer = setting.zero >= 1 ? (kOptimizer + kParameter) / shard + kCopy
                                             : kOptimizer + kParameter + kCopy;
  const double gradient = setting.zero >= 2 ? kGradient / shard : kGradient;
  return setting.zero >= 3 ? (kOptimizer + kParameter + kGradient) / shard : optimizer + gradient;
}

}  // namespace

PricedSetting priced(const ParallelSetting& setting, const LayerPrices& prices,
                     const PricedModel& model) {
  const std::vector<PipelineRank> ranks = pipeline_ranks(setting, prices, model);
  const auto count = static_cast<double>(setting.micro_batches());
  const int stride = setting.tensor * setting.context;
  const double context = setting.context;
  const double rate = bytes_per_second(model.cluster, stride, setting.data());
  double slowest = 0, memory = 0, exchanged = 0, updated = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const PipelineRank& rank = ranks[r];
    const double seconds = rank.seconds / context;
    slowest = std::max(slowest, seconds);
    const double parameters = rank.parameters / setting.tensor;
    const double bytes = kCopy * parameters;  // gradients and parameters travel in 16 bits
    const int size = setting.data();
    double exposed = 0;
    if (setting.zero == 3) {
      // Every micro-batch gathers parameters twice, and reduces and scatters gradients.
      const double each = 3 * ring_seconds(bytes, size, rate);
      exposed = count * std::max(each - kHidden * seconds, 0.0);
    } else {
      const double all = 2 * ring_seconds(bytes, size, rate);
      exposed = std::max(all - kHidden * seconds, 0.3 * all);
    }
    exchanged = std::max(exchanged, exposed);
    updated = std::max(
        updated, rank.layers * prices.update.value() / (setting.zero >= 1 ? setting.shard : 1));
    double need = parameters * bytes_of_parameter(setting);
    need += in_flight(setting, static_cast<int>(r)) * rank.kept / context;
    if (setting.zero == 3) need += 2 * kCopy * model.parameters.layer / setting.tensor;
    if (r + 1 == ranks.size()) need += prices.kept_ends / context;
    memory = std::max(memory, need);
  }
  const double bubble = static_cast<double>(setting.pipeline - 1) / setting.chunks;
  return {setting, Seconds((count + bubble) * slowest + exchanged + updated),
          Bytes(static_cast<int64_t>(memory))};
}

}  // namespace tessera
