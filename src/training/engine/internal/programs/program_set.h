// The programs of a run, over one set of variables: training, evaluation and prediction.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "ir/models/network.h"
#include "runtime/runtime/runtime.h"
#include "training/config/config.h"
#include "training/data/batch.h"
#include "training/engine/programs/program_plans.h"

namespace tessera {

struct ProgramOptions {
  Purpose main = Purpose::kTrain;  // or kEvaluate: no training step is compiled
  RuleLookup rules = catalogue_rule;
  bool check_placements = true;  // CompileOptions, of every program
  bool verify_passes = false;
};
/// What the plan does not decide of compiling a program.
CompileOptions options_for(Purpose purpose, const ProgramOptions& options);

/// The runtime and the programs that it has loaded.
///
/// The main program is compiled and loaded by the constructor. The others are compiled and loaded
/// when they are first used. They place a variable as the main program does.
///
///   threads  call from one thread
class ProgramSet {
 public:
  /// `network`, `settings` and `plan` outlive it; `training` is the training graph of the network.
  ///   throws  UserErrors of the network, of marks and of the runtime
  ProgramSet(const Network& network, const TrainingSettings& settings, const Plan& plan,
             Graph training, ProgramOptions options, RuntimeOptions runtime);
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  /// Initializes the variables of the main program from the seed, except those that were set.
  void initialize();
  /// Compiles and loads the program if that has not been done.
  ///   requires  `purpose` is kTrain, kEvaluate, kPredict or kDecode; kTrain only as the main
  ///             program; `rows` is 1 except for kPredict
  LoadedProgram& get(Purpose purpose, int64_t rows = 1);
  /// The rows of its batch that the ranks of this process read.
  std::vector<Range> rows_read_here(Purpose purpose, int64_t rows = 1);

  const Network& network() const { return network_; }
  const TrainingSettings& settings() const { return settings_; }
  const Plan& plan() const { return plan_; }
  const ProgramOptions& options() const { return options_; }
  /// The graph of a training step, whatever the main program is.
  const Graph& training_graph() const { return training_; }
  /// The fields of a batch that training and evaluation read, with its rows.
  const std::vector<Field>& batch_fields() const { return batch_fields_; }
  int64_t units_per_batch() const { return units_per_batch_; }
  const Compiled& main() const { return *main_; }
  Runtime& runtime() { return runtime_; }
  const Runtime& runtime() const { return runtime_; }

 private:
  Compiled compile_main() const;

  const Network& network_;
  const TrainingSettings& settings_;
  const Plan& plan_;
  const ProgramOptions options_;
  const Graph training_;
  const Graph evaluation_;
  const std::vector<Field> batch_fields_;
  const int64_t units_per_batch_;
  Runtime runtime_;
  std::shared_ptr<const Compiled> main_;
  std::map<std::pair<Purpose, int64_t>, LoadedProgram*> loaded_;  // by purpose and rows
};

/// The fields that the data gives to a graph, with the rows of its batch.
std::vector<Field> fields_of(const Graph& graph);

}  // namespace tessera
