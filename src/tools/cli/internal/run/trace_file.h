// Some steps of a run, written as a trace.
#pragma once

#include <filesystem>
#include <string>

#include "training/fit/callbacks.h"

namespace tessera {

/// Records `steps` steps, after two warm-up steps when the run is long enough, and writes them. A
/// run that ends earlier writes the steps that it has.
///   throws  UserError (1) when the file cannot be written
class TraceFile : public Callback {
 public:
  /// `engine` outlives it.
  TraceFile(Engine& engine, std::filesystem::path path, int64_t steps);

  /// The trace begins and ends with whole steps.
  CallbackNeeds needs(int64_t step) const override;
  void on_train_begin(const TrainingState& state, TrainingControl&) override;
  void on_step_begin(const TrainingState& state, TrainingControl&) override;
  void on_step_end(const TrainingState& state, TrainingControl&) override;
  void on_train_end(const TrainingState& state, TrainingControl&) override;

  /// "FILE: 1,234 spans and 56 messages of steps 3 to 5"; "" when no step was run.
  const std::string& summary() const { return summary_; }

 private:
  void write(int64_t last_step);

  Engine& engine_;
  std::filesystem::path path_;
  int64_t steps_;
  int64_t begin_ = 0;  // steps done before the first recorded one
  bool recording_ = false;
  std::string summary_;
};

}  // namespace tessera
