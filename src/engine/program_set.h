// The programs of a run, over one set of variables: training, evaluation and prediction.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "graph/graph.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

namespace tessera {

/// The computation of a program.
enum class Purpose {
  kTrain,     // a whole training step
  kEvaluate,  // loss and counts of a batch, without dropout
  kPredict,   // logits of one row
  kDecode,    // logits of one position of a row, with the keys and values of the earlier ones
  // These are the parts of a training step (engine/accumulation_programs.h).
  kAccumulate,
  kReduceGradients,
  kApplyGradients,
};

struct ProgramOptions {
  Purpose main = Purpose::kTrain;  // or kEvaluate: no training step is compiled
  RuleLookup rules = catalogue_rule;
  bool check_placements = true;  // CompileOptions, of every program
  std::vector<std::string> disabled_passes = {};
  bool verify_passes = false;
};
/// What all programs of a run have in common; the plan decides the rest.
CompileOptions common_options(const ProgramOptions& options);

/// The runtime and the programs that it has loaded.
///
/// The main program is compiled and loaded by the constructor. The others are compiled and loaded
/// when they are first used. They place a variable as the main program does.
///
///   threads  call from one thread
class ProgramSet {
 public:
  /// `config` and `plan` outlive it; `training` is training_graph(config).
  ///   throws  UserErrors of marks and of the runtime
  ProgramSet(const RunConfig& config, const Plan& plan, Graph training, ProgramOptions options,
             RuntimeOptions runtime);
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  /// Initializes the variables of the main program from the seed, except those that were set.
  void initialize();
  /// Compiles and loads the program if that has not been done.
  ///   requires  `purpose` is kTrain, kEvaluate, kPredict or kDecode; kTrain only as the main
  ///             program
  LoadedProgram& get(Purpose purpose);

  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return plan_; }
  const ProgramOptions& options() const { return options_; }
  /// The graph of a training step, whatever the main program is.
  const Graph& training_graph() const { return training_; }
  /// The fields of a batch that the programs read, with its rows.
  const std::vector<Field>& batch_fields() const { return batch_fields_; }
  const Compiled& main() const { return *main_; }
  Runtime& runtime() { return runtime_; }
  const Runtime& runtime() const { return runtime_; }

 private:
  Compiled compile_main() const;
  Graph graph_of(Purpose purpose) const;

  const RunConfig& config_;
  const Plan& plan_;
  const ProgramOptions options_;
  const Graph training_;
  std::vector<Field> batch_fields_;
  Graph evaluation_;  // set only when it is the graph of the main program
  Runtime runtime_;
  std::shared_ptr<const Compiled> main_;
  std::map<Purpose, LoadedProgram*> loaded_;
};

}  // namespace tessera
