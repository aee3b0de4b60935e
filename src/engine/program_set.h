// The programs of a run, over one set of variables: what is trained, evaluated and asked.
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

/// What a program computes.
enum class Purpose {
  kTrain,     // a whole training step
  kEvaluate,  // loss and counts of a batch, without dropout
  kPredict,   // logits of one row
  kDecode,    // logits of one position of a row, with the keys and values of the earlier ones
  // The parts of a training step (engine/accumulation_programs.h):
  kAccumulate,
  kReduceGradients,
  kApplyGradients,
};

struct ProgramOptions {
  Purpose main = Purpose::kTrain;  // or kEvaluate: no training step is compiled
  RuleLookup rules = catalogue_rule;
  bool check_placements = true;  // CompileOptions
};

/// The runtime and the programs that it has loaded.
///
/// The main program is compiled and loaded by the constructor. The others are compiled and loaded
/// when they are first used; a variable is placed in them as the main program places it.
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

  /// Initializes the variables of the main program from the seed, but those that were set.
  void initialize();
  /// Compiles and loads the program if that has not been done.
  ///   requires  one of kTrain, kEvaluate, kPredict, kDecode; kTrain only as the main program
  LoadedProgram& get(Purpose purpose);

  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return plan_; }
  const ProgramOptions& options() const { return options_; }
  /// Of a training step, whatever the main program is.
  const Graph& training_graph() const { return training_; }
  const Graph& main_graph() const;
  /// What the programs read of a batch, with its rows.
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
  Graph evaluation_;  // only when it is the main program's
  Runtime runtime_;
  std::shared_ptr<const Compiled> main_;
  std::map<Purpose, LoadedProgram*> loaded_;
};

}  // namespace tessera
