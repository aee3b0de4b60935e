// The checkpoints that a run writes into its folder, and the one that it resumes from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/checkpointing.h"

namespace tessera {

/// Writes checkpoints of `engine` into the folder "checkpoints" of a run, when fit() asks for it.
///
///   throws  UserError (1) when one cannot be written; earlier ones stay valid
class RunCheckpoints {
 public:
  /// `files` and `engine` outlive it.
  RunCheckpoints(FileSystem& files, const std::filesystem::path& run, Engine& engine);
  /// Saves now, unless this step is stored already.
  void save();
  /// The last stored checkpoint.
  std::filesystem::path last() const;

 private:
  Engine& engine_;
  CheckpointFolder folder_;
  std::optional<int64_t> saved_step_;
};

/// The checkpoint that --resume asks for: the latest one in the run folder `out` when its value is
/// "". nullopt without the option.
///   throws  UserError (66) when there is no such checkpoint
std::optional<std::filesystem::path> checkpoint_to_resume(FileSystem& files,
                                                          const std::optional<std::string>& resume,
                                                          const std::string& out);

/// One line for each setting that differs from the stored run: "optimizer.learning_rate was
/// 0.002 and is 0.001".
std::string changed_settings(const Document& stored, const Document& present);

}  // namespace tessera
