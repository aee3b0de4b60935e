#include "frontend/targets/writers.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/document.h"
#include "base/text/shell_quote.h"
#include "frontend/targets/internal/target_writers.h"
#include "frontend/targets/rules.h"

namespace tessera {
namespace {

/// The launcher's line, up to the flags.
std::string command_of(const TargetPlan& plan) {
  const int ranks = plan.setting.ranks();
  const int of_machine = std::max(1, std::min(plan.ranks_of_machine, ranks));
  const std::string torchrun =
      fmt::format("torchrun --nnodes {} --nproc-per-node {}", ranks / of_machine, of_machine);
  switch (plan.target) {
    case Target::kTorchtitan:
      return torchrun + " -m torchtitan.train --module tessera_plan --config planned";
    case Target::kMegatron: return torchrun + " pretrain_gpt.py";
    case Target::kFsdp: return torchrun + " YOUR_TRAINING_SCRIPT";
  }
  throw InternalError("unknown target");
}

std::string launch_text(const TargetPlan& plan) {
  std::string text = "#!/bin/sh\n# On every machine, with --rdzv-endpoint of the first one.\n";
  if (plan.target == Target::kTorchtitan) {
    text += "export PYTHONPATH=\"$(dirname \"$0\"):$PYTHONPATH\"\n";
    return text + "exec " + command_of(plan) + " \"$@\"\n";
  }
  if (plan.target == Target::kFsdp) return text + "exec " + command_of(plan) + " \"$@\"\n";
  return text + "export CUDA_DEVICE_MAX_CONNECTIONS=1\nexec " + command_of(plan) + " \\\n  " +
         flags_text(flags_of(plan)) + " \"$@\"\n";
}

std::string ranks_text(const ParallelSetting& setting) {
  Document document;
  document["order"] = Document::List{"pp", "dp_replicate", "dp_shard", "cp", "tp"};
  for (const RankPlace& place : rank_places(setting))
    document["ranks"].append(
        Document::List{place.pipeline, place.replicate, place.shard, place.context, place.tensor});
  return to_json(document) + "\n";
}

void check_name(const std::string& name) {
  if (name.find_first_of(std::string("\n\r\0", 3)) == std::string::npos) return;
  throw UserError("the name of the model has a newline or a NUL",
                  "it is written into files for a shell", "rename the file of the model",
                  ExitCode::kBadConfig);
}

}  // namespace

std::vector<Flag> flags_of(const TargetPlan& plan) {
  switch (plan.target) {
    case Target::kTorchtitan: return torchtitan_flags(plan);
    case Target::kMegatron: return megatron_flags(plan);
    case Target::kFsdp: return fsdp_flags(plan);
  }
  throw InternalError("unknown target");
}

std::string flags_text(const std::vector<Flag>& flags) {
  std::string text;
  for (const Flag& flag : flags) {
    if (!text.empty()) text += " \\\n  ";
    text += shell_quoted(flag.name);
    if (!flag.value.empty()) text += " " + shell_quoted(flag.value);
  }
  return text;
}

std::vector<TargetFile> target_files(const TargetPlan& plan) {
  check_name(plan.model_name);
  std::vector<TargetFile> files;
  if (plan.target == Target::kTorchtitan) files = torchtitan_files(plan);
  if (plan.target == Target::kFsdp) files = fsdp_files(plan);
  if (plan.target != Target::kFsdp)
    files.push_back({"flags.txt", flags_text(flags_of(plan)) + "\n"});
  files.push_back({"launch.sh", launch_text(plan)});
  files.push_back({"ranks.json", ranks_text(plan.setting)});
  files.push_back(
      {"README.md",
       fmt::format("# {} for {}\n\n{}\n\n`sh launch.sh` starts it; {}ranks.json has the "
                   "coordinates of each rank in the order of {}.\n",
                   plan.model_name, version_of(plan.target), plan.verdict,
                   plan.target == Target::kFsdp ? "" : "flags.txt has its flags; ",
                   version_of(plan.target))});
  return files;
}

std::vector<RankPlace> rank_places(const ParallelSetting& setting) {
  std::vector<RankPlace> places;
  const int replicate = setting.zero == 0 ? setting.data() : setting.replicate;
  const int shard = setting.zero == 0 ? 1 : setting.shard;
  for (int pipeline = 0; pipeline < setting.pipeline; ++pipeline)
    for (int r = 0; r < replicate; ++r)
      for (int s = 0; s < shard; ++s)
        for (int context = 0; context < setting.context; ++context)
          for (int tensor = 0; tensor < setting.tensor; ++tensor)
            places.push_back({static_cast<int>(places.size()), pipeline, r, s, context, tensor});
  return places;
}

}  // namespace tessera
