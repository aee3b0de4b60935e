// A setting as a sum of smaller ones. Stages of many like layers, many chunks, many micro-batches
// and many pipeline ranks are simulated with few of them: each further one takes as long, and as
// much memory, as the one before.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "frontend/targets/setting.h"
#include "planner/search/find_plan.h"

namespace tessera {

/// A smaller setting, and how often its result is added.
struct SettingPart {
  ParallelSetting setting;
  int64_t layers = 0;
  double weight = 1;
  double weight_of_memory = 1;  // which inputs of micro-batches do not have
};

/// The smaller settings of which a setting is a sum: results with two numbers of layers a stage or
/// of chunks, of micro-batches and of pipeline ranks, and the lines through them.
///   ensures  the weights of each kind add up to 1; one part of weight 1, the setting, where
///            nothing is smaller; ranks of pipelines are left out only where all stages have like
///            devices
std::vector<SettingPart> parts_of_setting(const ParallelSetting& setting, int64_t layers,
                                          const Cluster& cluster);

/// Layers times micro-batches that are simulated, more of many ranks: a measure of the work.
int64_t work_of(const std::vector<SettingPart>& parts);

/// The weighted sum of the results of the parts of a setting. Ranks, traffic and program of it are
/// empty.
///   kept_of_layer  bytes that a layer keeps for the backward: without a pipeline, a rank may be
///                  fullest at another time of the step of few layers, whose memory does not grow
EvaluatedCandidate sum_of_parts(const ParallelSetting& setting,
                                const std::vector<SettingPart>& parts,
                                const std::vector<EvaluatedCandidate>& evaluated,
                                double kept_of_layer, const Cluster& cluster);

}  // namespace tessera
