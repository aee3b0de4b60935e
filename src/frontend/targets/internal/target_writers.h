// The writers of the targets, one source each. Other modules use frontend/targets/writers.h.
#pragma once

#include <string>
#include <vector>

#include "frontend/targets/target_plan.h"

namespace tessera {

std::vector<Flag> torchtitan_flags(const TargetPlan& plan);
std::vector<TargetFile> torchtitan_files(const TargetPlan& plan);

std::vector<Flag> megatron_flags(const TargetPlan& plan);

/// FSDP2 has no flags: those of the script that is written.
std::vector<Flag> fsdp_flags(const TargetPlan& plan);
std::vector<TargetFile> fsdp_files(const TargetPlan& plan);

}  // namespace tessera
