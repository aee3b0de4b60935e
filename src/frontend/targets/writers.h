// What a target reads: its flags, and files for it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/targets/target_plan.h"

namespace tessera {

/// The flags of parallelism, batch and recomputation. Megatron-LM's have the sizes of the model,
/// too.
///   source  torchtitan 0.3.0, config/configs.py; Megatron-LM core_v0.16.1, training/arguments.py
std::vector<Flag> flags_of(const TargetPlan& plan);
/// "--tensor-model-parallel-size 8 \\\n  ...", quoted for a shell.
std::string flags_text(const std::vector<Flag>& flags);

/// All files: the plan in the target's form, flags.txt, launch.sh, ranks.json and README.md.
///   throws  UserError (78) for a name with a newline or a NUL
std::vector<TargetFile> target_files(const TargetPlan& plan);

/// The stages of Megatron-LM's --pipeline-model-parallel-layout: "Ett|ttt|ttL".
std::string megatron_layout(const std::vector<int64_t>& layers);
/// torchtitan's names of the modules of each stage, which hold every module once.
std::vector<std::vector<std::string>> torchtitan_parts(const std::vector<int64_t>& layers);

/// The rank of each coordinate, in the order of both programs: pp, replicate, shard, cp, tp, the
/// last one fastest.
struct RankPlace {
  int rank = 0, pipeline = 0, replicate = 0, shard = 0, context = 0, tensor = 0;
};
std::vector<RankPlace> rank_places(const ParallelSetting& setting);

}  // namespace tessera
