// PyTorch's FSDP2: fully_shard of each block and of the model, in a module of a few lines.
#include <fmt/format.h>

#include "frontend/targets/internal/target_writers.h"

namespace tessera {
namespace {

std::string fsdp_module(const TargetPlan& plan) {
  const ParallelSetting& s = plan.setting;
  const bool is_hybrid = s.zero > 0 && s.replicate > 1;
  const bool is_replicated = s.zero == 0;
  std::string mesh =
      is_hybrid ? fmt::format(
                      "init_device_mesh(device, ({}, {}), mesh_dim_names=(\"replicate\", "
                      "\"shard\"))",
                      s.replicate, s.shard)
      : is_replicated
          ? fmt::format(
                "init_device_mesh(device, ({}, 1), mesh_dim_names=(\"replicate\", "
                "\"shard\"))",
                s.data())
          : fmt::format("init_device_mesh(device, ({},), mesh_dim_names=(\"shard\",))", s.shard);
  return fmt::format(
      "\"\"\"The plan of tessera for FSDP2: {rows} rows a micro-batch on each of {data} ranks, "
      "{count} "
      "micro-batches a step.\"\"\"\n"
      "import torch\n"
      "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper\n"
      "from torch.distributed.device_mesh import init_device_mesh\n"
      "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n"
      "\n"
      "MICRO_BATCH, MICRO_BATCHES = {rows}, {count}\n"
      "\n\n"
      "def parallelize(model, blocks, device=\"cuda\", param_dtype=torch.bfloat16):\n"
      "    \"\"\"Shards `model`; `blocks` is its torch.nn.ModuleList of layers.\"\"\"\n"
      "    mesh = {mesh}\n"
      "    policy = MixedPrecisionPolicy(param_dtype=param_dtype, reduce_dtype=torch.float32)\n"
      "    options = dict(mesh=mesh, mp_policy=policy, reshard_after_forward={reshard})\n"
      "    for i in range(len(blocks)):\n"
      "{checkpoint}"
      "        fully_shard(blocks[i], **options)\n"
      "    return fully_shard(model, **{{**options, \"reshard_after_forward\": False}})\n",
      fmt::arg("rows", s.micro_batch), fmt::arg("data", s.data()),
      fmt::arg("count", s.micro_batches()), fmt::arg("mesh", mesh),
      fmt::arg("reshard", s.zero == 3 ? "True" : "False"),
      fmt::arg("checkpoint", s.recomputed == Recomputed::kLayers
                                 ? "        blocks[i] = checkpoint_wrapper(blocks[i])\n"
                                 : ""));
}

}  // namespace

std::vector<Flag> fsdp_flags(const TargetPlan& plan) {
  const ParallelSetting& s = plan.setting;
  return {{"--replicate", std::to_string(s.zero == 0 ? s.data() : s.replicate)},
          {"--shard", std::to_string(s.zero == 0 ? 1 : s.shard)},
          {"--reshard-after-forward", s.zero == 3 ? "true" : "false"},
          {"--recompute", std::string(to_text(s.recomputed))},
          {"--micro-batch", std::to_string(s.micro_batch)},
          {"--micro-batches", std::to_string(s.micro_batches())}};
}

std::vector<TargetFile> fsdp_files(const TargetPlan& plan) {
  return {{"tessera_fsdp.py", fsdp_module(plan)}};
}

}  // namespace tessera
