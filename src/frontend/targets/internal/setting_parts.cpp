#include "frontend/targets/internal/setting_parts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace tessera {
namespace {

using Change = std::function<void(SettingPart&)>;

void set_micro_batches(SettingPart& part, int64_t count) {
  part.setting.global_batch = count * part.setting.micro_batch * part.setting.data();
}

void set_stages(SettingPart& part, std::vector<int64_t> layers_of_stages) {
  part.layers = std::accumulate(layers_of_stages.begin(), layers_of_stages.end(), int64_t{0});
  part.setting.stage_layers = std::move(layers_of_stages);
}

/// Of a pipeline whose stages are alike except for the first and the last one.
void set_pipeline(SettingPart& part, int ranks) {
  std::vector<int64_t> layers = layers_of_stages(part.setting, part.layers);
  part.setting.pipeline = ranks;
  const int64_t last = layers.back();
  layers.resize(static_cast<size_t>(part.setting.stages()) - 1);
  layers.push_back(last);
  set_stages(part, std::move(layers));
}

/// A change of a setting, and how often the step and the memory of the result are added.
struct Term {
  Change change;
  double weight = 1, weight_of_memory = 1;
};

std::vector<SettingPart> product(const std::vector<SettingPart>& parts,
                                 const std::vector<Term>& terms) {
  std::vector<SettingPart> list;
  for (const Term& term : terms)
    for (SettingPart part : parts) {
      part.weight *= term.weight;
      part.weight_of_memory *= term.weight_of_memory;
      term.change(part);
      list.push_back(std::move(part));
    }
  return list;
}

/// The line through the results with `few` and with `more`, at `all`.
std::vector<Term> line(int64_t few, int64_t more, int64_t all,
                       const std::function<Change(int64_t)>& with) {
  const double further = static_cast<double>(all - more) / static_cast<double>(more - few);
  return {{with(few), -further, -further}, {with(more), 1 + further, 1 + further}};
}

/// Once a pipeline is full, each further micro-batch takes as long as the busiest rank needs for
/// it, and no more memory except for its input.
std::vector<Term> fewer_micro_batches(const ParallelSetting& setting, int64_t few, int64_t more) {
  const double further =
      static_cast<double>(setting.micro_batches() - more) / static_cast<double>(more - few);
  const auto with = [](int64_t count) {
    return [count](SettingPart& part) { set_micro_batches(part, count); };
  };
  return {{with(few), -further, 0}, {with(more), 1 + further, 1}};
}

/// Each further rank of a pipeline delays the first micro-batch by as long as it needs for it, and
/// the first rank has one more in flight.
///   few  ranks of the shorter one of two pipelines; with as many micro-batches as ranks they are
///        full, with twice as many as many are in flight as ever are
std::vector<Term> fewer_ranks(const ParallelSetting& setting, int few) {
  const int more = few + 1;
  const auto with = [](int ranks, int64_t micro_batches) {
    return [ranks, micro_batches](SettingPart& part) {
      set_pipeline(part, ranks);
      set_micro_batches(part, micro_batches);
    };
  };
  const double further =
      static_cast<double>(setting.micro_batches() - int64_t{2} * more) / static_cast<double>(more);
  const double ranks = setting.pipeline - more, between = 2.0 / more;
  return {{with(few, int64_t{2} * few), -ranks, -ranks},
          {with(more, more), -further + between * ranks, 0},
          {with(more, int64_t{2} * more), 1 + further + ranks - between * ranks, 1 + ranks}};
}

/// Have the neighbours of all pipeline ranks the same link, and all devices one type?
bool has_like_stages(const ParallelSetting& setting, const Cluster& cluster) {
  if (std::ssize(cluster.description().types) != 1) return false;
  const int ranks = setting.ranks() / setting.pipeline;
  const auto rate = [&](int rank) {
    return cluster.link(rank * ranks, (rank + 1) * ranks).bytes_per_second;
  };
  for (int rank = 0; rank + 1 < setting.pipeline; ++rank)
    if (rate(rank) != rate(0)) return false;
  return true;
}

/// The sum of parts, each as often as its weights say.
class WeightedSum {
 public:
  explicit WeightedSum(const ParallelSetting& setting)
      : setting_(setting), memory_(static_cast<size_t>(setting.ranks())) {}

  void add(const EvaluatedCandidate& evaluated, const SettingPart& part) {
    step_ += part.weight * evaluated.step().value();
    compute_ += part.weight * evaluated.parts.compute.value();
    idle_ += part.weight * evaluated.parts.idle.value();
    for (const auto& [axes, time] : evaluated.parts.exposed)
      exposed_[axes] += part.weight * time.value();
    for (size_t rank = 0; rank < memory_.size(); ++rank) {
      const RankMemoryNeed& need = evaluated.prediction.memory.at(rank_of_part(rank, part.setting));
      const auto bytes = [](Bytes size) { return static_cast<double>(size.value()); };
      memory_[rank].variables += part.weight_of_memory * bytes(need.variables);
      memory_[rank].buffers += part.weight_of_memory * bytes(need.arena - need.batch);
      memory_[rank].batch += part.weight * bytes(need.batch);
    }
  }

  /// To those of the part and `further` bytes, where they are less.
  void raise_buffers(const EvaluatedCandidate& part, double further) {
    for (size_t rank = 0; rank < memory_.size(); ++rank) {
      const RankMemoryNeed& need = part.prediction.memory.at(rank);
      const auto buffers = static_cast<double>((need.arena - need.batch).value());
      memory_[rank].buffers = std::max(memory_[rank].buffers, buffers + further);
    }
  }

  /// `part`, whose devices are alike, with the sum in place of its own figures.
  EvaluatedCandidate result(const EvaluatedCandidate& part, const ParallelSetting& of,
                            const Cluster& cluster) const {
    const auto seconds = [](double value) { return Seconds(std::max(value, 0.0)); };
    const auto bytes = [](double value) {
      return Bytes(std::max<int64_t>(std::llround(value), 0));
    };
    EvaluatedCandidate result;
    result.candidate.name = preset_text(setting_);
    result.prediction.step = seconds(step_);
    result.prediction.peak_flops_per_second =
        part.prediction.peak_flops_per_second * setting_.ranks() / of.ranks();
    result.parts = {seconds(compute_), {}, seconds(idle_)};
    for (const auto& [axes, time] : exposed_) result.parts.exposed[axes] = seconds(time);
    std::vector<RankMemoryNeed>& memory = result.prediction.memory;
    for (size_t rank = 0; rank < memory_.size(); ++rank) {
      RankMemoryNeed& need = memory.emplace_back(part.prediction.memory[rank_of_part(rank, of)]);
      need.variables = bytes(memory_[rank].variables);
      need.batch = bytes(memory_[rank].batch);
      need.arena = bytes(memory_[rank].buffers) + need.batch;
    }
    const auto fullest = std::ranges::max_element(memory, {}, [](const RankMemoryNeed& need) {
      return static_cast<double>(need.all().value()) / static_cast<double>(need.capacity.value());
    });
    const auto rank = static_cast<Rank>(fullest - memory.begin());
    result.fullest = {rank, cluster.name(rank), *fullest};
    return result;
  }

 private:
  struct Memory {
    double variables = 0, buffers = 0, batch = 0;  // bytes
  };
  /// A rank of the part with the same place: in the first stage, in the last one, or between.
  size_t rank_of_part(size_t rank, const ParallelSetting& part) const {
    const auto ranks = static_cast<size_t>(setting_.ranks() / setting_.pipeline);
    const auto last = static_cast<size_t>(setting_.pipeline - 1);
    const size_t stage = rank / ranks;
    if (part.pipeline == setting_.pipeline) return rank;
    const size_t other = stage == last ? static_cast<size_t>(part.pipeline - 1)
                                       : std::min<size_t>(stage, part.pipeline > 2 ? 1 : 0);
    return other * ranks + rank % ranks;
  }

  const ParallelSetting& setting_;
  double step_ = 0, compute_ = 0, idle_ = 0;
  std::map<std::string, double> exposed_;
  std::vector<Memory> memory_;  // by rank
};

}  // namespace

std::vector<SettingPart> parts_of_setting(const ParallelSetting& setting, int64_t layers,
                                          const Cluster& cluster) {
  std::vector<SettingPart> parts{{setting, layers}};
  const std::vector<int64_t> of_stages = layers_of_stages(setting, layers);
  const int64_t fewest = std::ranges::min(of_stages);
  const bool has_one_size = fewest == std::ranges::max(of_stages);
  // With fewer layers in flight, a rank is fullest at another time of the step than with all.
  constexpr int kFewLayers = 16, kFewChunks = 2;
  const int64_t few = std::max(1, kFewLayers / std::max(setting.stages(), 2));
  const int64_t more = few + std::max<int64_t>(few / 2, 1);
  const auto less_layers = static_cast<double>(fewest) / static_cast<double>(more);
  const auto less_chunks = static_cast<double>(setting.chunks) / (kFewChunks + 1);
  if (less_layers > 1 && less_layers >= less_chunks)
    parts = product(parts, line(few, more, fewest, [&](int64_t count) {
                      return [&, count](SettingPart& part) {
                        std::vector<int64_t> list = of_stages;
                        for (int64_t& each : list) each -= fewest - count;
                        set_stages(part, std::move(list));
                      };
                    }));
  else if (less_chunks > 1 && has_one_size)
    parts = product(parts, line(kFewChunks, kFewChunks + 1, setting.chunks, [&](int64_t count) {
                      return [&, count](SettingPart& part) {
                        part.setting.chunks = static_cast<int>(count);
                        set_stages(part,
                                   std::vector(static_cast<size_t>(part.setting.stages()), fewest));
                      };
                    }));
  const int64_t count = setting.micro_batches(), ranks = setting.pipeline;
  const int few_ranks = setting.chunks > 1 ? 2 : 3;
  if (setting.is_gpipe || count < ranks) return parts;
  const bool has_one_middle =
      has_one_size || (setting.chunks == 1 && std::equal(of_stages.begin() + 2, of_stages.end() - 1,
                                                         of_stages.begin() + 1));
  if (ranks > 2 * few_ranks && has_one_middle && has_like_stages(setting, cluster))
    return product(parts, fewer_ranks(setting, few_ranks));
  // The first micro-batch begins the sums of gradients, and exchanges of the last ones wait. Chunks
  // take as many as there are ranks in turn.
  const int64_t full = setting.chunks > 1 ? ranks : std::max<int64_t>(ranks, 3);
  const int64_t steady = setting.chunks > 1 ? 2 * ranks : full + std::max<int64_t>(full / 4, 1);
  return count > steady ? product(parts, fewer_micro_batches(setting, full, steady)) : parts;
}

int64_t work_of(const std::vector<SettingPart>& parts) {
  constexpr int64_t kAlike = 128;  // ranks: to find which of them are alike takes time, too
  int64_t work = 0;
  for (const SettingPart& part : parts)
    work += part.layers * part.setting.micro_batches() * (1 + part.setting.ranks() / kAlike);
  return work;
}

EvaluatedCandidate sum_of_parts(const ParallelSetting& setting,
                                const std::vector<SettingPart>& parts,
                                const std::vector<EvaluatedCandidate>& evaluated,
                                double kept_of_layer, const Cluster& cluster) {
  WeightedSum sum(setting);
  double layers = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum.add(evaluated[i], parts[i]);
    layers += parts[i].weight * static_cast<double>(parts[i].layers);
  }
  if (setting.pipeline == 1)
    sum.raise_buffers(evaluated.back(),
                      (layers - static_cast<double>(parts.back().layers)) * kept_of_layer);
  return sum.result(evaluated.back(), parts.back().setting, cluster);
}

}  // namespace tessera
