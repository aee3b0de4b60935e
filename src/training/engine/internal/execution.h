// The execution of a run under one plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "training/engine/internal/evaluator.h"
#include "training/engine/internal/programs/program_set.h"
#include "training/engine/internal/run_state.h"
#include "training/engine/internal/steps/gradient_accumulation.h"
#include "training/engine/internal/steps/training_steps.h"
#include "training/engine/internal/text/text_generator.h"

namespace tessera {

struct EngineOptions {
  RuntimeOptions runtime;
  RuleLookup rules = catalogue_rule;
  bool check_placements = true;  // CompileOptions, of every program
  bool verify_passes = false;
  Purpose purpose = Purpose::kTrain;  // or kEvaluate: no training step, and no optimizer state
  /// Whether the variables are initialized from the seed. Otherwise the caller sets them before the
  /// first step: by Engine::set_variables or restore() of training/engine/checkpointing.h.
  bool initialize = true;
};

/// The plan, the compiled and loaded programs, and everything that computes with them. Another
/// execution of the same state may take its place between two steps: Engine::switch_plan.
struct Execution {
  /// `network`, `settings` and `state` outlive it. The variables are zero.
  ///   throws  UserErrors of the network, the plan, its marks, the data and the runtime
  Execution(const Network& network, const TrainingSettings& settings,
            std::shared_ptr<const RunData> data, Plan plan, const EngineOptions& options,
            RunState& state);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Sets the variables of the main program to those of `other`, which executes the same network.
  ///   memory  one whole variable at a time
  void take_variables(const Execution& other);
  /// Does Engine::predict for a batch.
  TensorMap predict(const Batch& batch);

  const Plan plan;
  TrainingSteps steps;
  ProgramSet programs;  // made after `steps` and destroyed before: the runtime uses their memory
  GradientAccumulation gradients;
  Evaluator evaluator;
  TextGenerator generator;
};

}  // namespace tessera
