// The folder of a run: what was run, and how it went.
#pragma once

#include <filesystem>
#include <fstream>

#include "engine/callbacks.h"

namespace tessera {

/// Holds plan.json (stamped for the model), config.json (every setting) and metrics.jsonl (a line a step).
///
///   metrics  step, loss, lr, grad_norm, step_time_ms, tokens, tokens_per_s, tokens_per_s_per_device, mem_peak_bytes; val_loss where it was
///   measured throws   UserError (1) when the folder cannot be made or written
class RunFolder : public Callback {
 public:
  RunFolder(const std::filesystem::path& folder, Engine& engine);
  void on_step_end(const TrainingState& state, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl&) override;

 private:
  void add_line(const Document& line);

  Engine& engine_;
  std::filesystem::path metrics_path_;
  std::ofstream metrics_;
};

}  // namespace tessera
