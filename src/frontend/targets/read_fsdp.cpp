// The words of flags.txt of the target fsdp (write_fsdp.cpp): FSDP2 has no flags of its own.
#include "base/error.h"
#include "frontend/targets/internal/given_flags.h"

namespace tessera {

CurrentRun fsdp_run(const GivenFlags&) {
  return {};
}

CurrentSetting fsdp_setting(const GivenFlags& flags, int ranks) {
  ParallelSetting setting;
  setting.replicate = static_cast<int>(flags.number_or("replicate", 1));
  setting.shard = data_ranks(ranks, setting.replicate);
  const auto shard = flags.number("shard");
  if (shard && *shard != setting.shard)
    refuse_config("--shard of --current is " + std::to_string(*shard),
                  "with --replicate " + std::to_string(setting.replicate) + " on " +
                      std::to_string(ranks) + " devices it is " + std::to_string(setting.shard),
                  "correct the degrees, or give the cluster on which it runs");
  const std::string reshard = flags.text("reshard_after_forward").value_or("true");
  setting.zero = setting.shard == 1 ? 0 : reshard == "false" ? 2 : 3;
  const std::string recompute = flags.text("recompute").value_or("none");
  for (const Recomputed recomputed :
       {Recomputed::kNothing, Recomputed::kSelective, Recomputed::kLayers})
    if (to_text(recomputed) == recompute) setting.recomputed = recomputed;
  setting.micro_batch = flags.number_or("micro_batch", 1);
  setting.global_batch = setting.micro_batch * flags.number_or("micro_batches", 1) * ranks;
  return {setting, {}};
}

}  // namespace tessera
