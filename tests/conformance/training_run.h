// A run of the conformance suite: one value of each factor, as texts. Test code.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/plan.h"
#include "small_models.h"

namespace tessera::conformance {

/// By factor its value; the defaults are those of a serial run. A value may be "": open.
struct TrainingRun {
  std::string model = "gpt";
  std::string dp = "1", tp = "1", sp = "1", pp = "1";  // "2:1": two parts with these weights
  std::string micro_batches = "1", accumulate = "1";
  std::string schedule = "1f1b";
  std::string zero = "0";
  std::string recompute = "none";  // or "selective", "full", "auto", "everything"
  std::string precision = "f32";   // or "bf16", "f16"
  std::string gradients = "f32";   // what ranks send of them: or "bf16"
  std::string optimizer = "adamw";
  std::string trained = "all";        // or "frozen", "lora": ModelChanges::trained
  std::string device = "host";        // or "fake", "fake_last": of the last stage; "file": of state
  std::string transport = "threads";  // or "two_processes"
  std::string tasks = "role";
  std::string all_reduce = "auto";
  std::string collective_matmul = "off";
  std::string overlap = "default";  // or "none": no prefetch, and each gradient is sent alone
  std::string halos = "auto";

  bool operator==(const TrainingRun&) const = default;
};

/// A factor of runs: its values, the default first.
struct RunFactor {
  std::string_view name;
  std::string TrainingRun::* value;
  std::vector<std::string> values;
};
std::span<const RunFactor> run_factors();

/// Can such a run be made? True while what a constraint reads is open.
bool is_possible(const TrainingRun& run);

/// Few runs in which any two possible values of different factors occur together
/// (covering_array.h).
std::vector<TrainingRun> covering_runs();

/// The model, and every factor that has not its default: "gpt dp=2 zero=1 precision=bf16".
std::string to_text(const TrainingRun& run);
std::ostream& operator<<(std::ostream& out, const TrainingRun& run);

SmallModel model_of(const TrainingRun& run);

/// The plan of the preset with the degrees of the run, and its other decisions.
///   graph  the training graph of the model
Plan plan_of(const TrainingRun& run, const Graph& graph);

/// The same run without the decisions that may not change a bit of the results: the order of
/// passes, recompute, tasks, prefetch and buckets, devices, offload and processes.
TrainingRun without_neutral_decisions(const TrainingRun& given);

}  // namespace tessera::conformance
