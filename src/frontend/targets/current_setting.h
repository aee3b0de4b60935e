// The setting that a user runs now, read from what the target is launched with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/targets/setting.h"

namespace tessera {

/// Its text.
///   throws  UserError (66) for a file that cannot be read or that has more than 1 MiB
CurrentText current_text(const std::string& text_or_file);

/// What of the flags is needed to know the batch.
///   throws  UserError as read_current
CurrentRun current_run(Target target, const CurrentText& current);

/// Reads the setting.
///
///   Megatron-LM  the words of its command line: "--tensor-model-parallel-size 8 ..."
///   torchtitan   the words of its command line, "--parallelism.tensor_parallel_degree 8 ...", a
///                .toml file of its versions to 0.2.2, a .json file that --debug.save_config_file
///                wrote, or a .py file with assignments to keys of its configuration
///   fsdp         the words that flags.txt has (write_fsdp.cpp)
///
/// Words before the first flag, such as the launcher, and flags of other things are ignored.
///   throws  UserError (78) for a value that is malformed, or a size that contradicts the model;
///           (65) for a malformed TOML or JSON file
///   source  torchtitan 0.3.0, config/configs.py; torchtitan 0.2.2, config/job_config.py;
///           Megatron-LM core_v0.16.1, training/arguments.py
CurrentSetting read_current(Target target, const CurrentText& current,
                            const TransformerSizes& model, int ranks);

}  // namespace tessera
