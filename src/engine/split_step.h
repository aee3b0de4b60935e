// A training step in three parts, for those who write their own loop: gradients are added up where
// they are made, exchanged once, applied.
//
// Each part is a program of its own, placed by the same marks and sharing the variables of
// training. In between, gradients are variables:
//
//     <parameter>.accumulated   as backward makes it: under data parallelism Partial, an addend on
//     each rank <parameter>.reduced       as the parameter lies, summed over the ranks
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "lower/lower.h"
#include "runtime/runtime.h"

namespace tessera {

/// What a gradient is once backward has made it.
struct MadeGradient {
  std::string parameter;  // name of the variable
  std::string gradient;   // name of its gradient's value
  TensorType type;
  DistAttr attr;          // on a mesh of ranks
  std::string mesh;       // where it is made
  std::string home_mesh;  // where the parameter is kept
};

/// Gradients that one exchange may carry: made on one mesh, whole in every dim, addends over the
/// same axes.
std::vector<std::vector<MadeGradient>> fusible(const std::vector<MadeGradient>& gradients);

/// The programs of a step in parts, made when it is made.
///
///   memory   three times the gradients beside the training program: accumulated, reduced, and the
///   joined buffer of the exchange threads  call from one thread
class SplitStep {
 public:
  /// Sees each program as it was compiled: "accumulate", "all-reduce", "apply".
  using OnCompiled =
      std::function<void(std::string_view part, const Graph& graph, const Compiled& compiled)>;

  /// `training` and `compiled` are the graph and the program of training; the variables of training
  /// are in `runtime`.
  SplitStep(const RunConfig& config, const Plan& plan, const Graph& training,
            const Compiled& compiled, const RuleLookup& rules, Runtime& runtime,
            const OnCompiled& on_compiled = {});

  /// The mean loss of the batch; its gradient is added to <parameter>.accumulated.
  ///   inputs  those of the training program but the learning rate; "step" numbers the draws of
  ///   dropout only
  double accumulate(const std::map<std::string, const Tensor*>& inputs);
  /// Forgets what is accumulated and reduced.
  void drop();
  /// Adds the sums over the ranks of what is accumulated to <parameter>.reduced, and begins to
  /// accumulate anew.
  void all_reduce();
  struct Applied {
    double grad_norm = 0;  // 0 without clipping
  };
  /// Updates the parameters by the reduced gradients times `scale`, and begins anew.
  Applied apply(double scale, double learning_rate, int64_t step);

 private:
  Runtime& runtime_;
  std::vector<std::pair<std::string, TensorType>> parameters_;
  LoadedProgram* accumulation_ = nullptr;
  LoadedProgram* exchange_ = nullptr;
  LoadedProgram* update_ = nullptr;
  TensorMap accumulation_results_, exchange_results_, update_results_;
  Tensor scale_ = Tensor::scalar(0.0f);
  Tensor rate_ = Tensor::scalar(0.0f);
  Tensor step_ = Tensor::scalar(int32_t{0});
};

}  // namespace tessera
